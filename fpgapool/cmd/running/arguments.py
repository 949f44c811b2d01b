# SPDX-License-Identifier: Apache-2.0

"""The command line of ``fpgapool-run``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from fpgapool.cmd import completion
from fpgapool.common import arguments as declared
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import names
from fpgapool.vocabulary import session as description

flag, option = declared.flag, declared.option

PROGRAM = "fpgapool-run"
#: What stands between the stages of a chain.
PLUS = "+"
#: File name that means standard input or output.
STANDARD = "-"

#: Options that are part of the request for a session.
REQUESTED = tuple(
    one
    for one in description.FIELDS.options
    if one.name in description.Options.__annotations__
)
# Attributes and flags of options that do not apply to groups.
_SESSION_OPTIONS = (
    *((one.name, one.flag) for one in REQUESTED),
    ("fallback", "--fallback"),
    ("meanwhile", "--meanwhile"),
    ("checksum", "--checksum"),
    ("request_id", "--request-id"),
)


# The same for chains.
_NOT_OF_CHAINS = (
    ("group", "--group"),
    ("dry_run", "--dry-run"),
    ("fallback", "--fallback"),
    ("checksum", "--checksum"),
)


class UsageError(Exception):
    """The command line is invalid."""


class _Parser(argparse.ArgumentParser):
    """Raises errors instead of exiting, so that ``--json`` applies to them."""

    def error(self, message: str) -> NoReturn:
        end = "" if message.endswith("?") else ";"
        raise UsageError(f"{message}{end} {PROGRAM} --help lists the options")

    def flags(self) -> list[str]:
        """Return all options."""
        return list(self._option_string_actions)


def _filled(text: str) -> str:
    """Reject an empty name, such as the value of an unset variable.

    :raises argparse.ArgumentTypeError: if the name is empty.
    """
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def _requested(one: fields.Option) -> declared.Argument:
    """Return the argument for an option of a session."""
    choices = one.limits.get("enum")
    names = {fields.SECONDS: "S", fields.COUNT: "N", fields.INTEGER: "N"}
    return declared.Argument(
        one.flag,
        dest=one.name,
        type=one.kind.type,
        choices=choices,
        metavar=None if choices else names.get(one.kind, "NAME"),
        help=one.help,
    )


_DECLARED = (
    declared.Argument(
        "accelerator",
        nargs="?",
        help="name, for example aes or copy; --list shows all. Several, such"
        " as gzip + aes, form a chain: the output of one goes to the next one"
        " directly",
    ),
    declared.Argument(
        "file",
        nargs="?",
        type=_filled,
        metavar="FILE",
        help="file to read instead of IN, - for standard input. Without OUT,"
        " gzip writes FILE.gz, aes and aes-cbc write FILE.enc, or FILE from"
        " FILE.enc, gzip + aes writes FILE.gz.enc, and sha prints the digest"
        " as sha256sum does",
    ),
    option(
        "in",
        "IN",
        "file to read, - for standard input; optional in a pipe",
        type=_filled,
        dest="source",
    ),
    option(
        "out",
        "OUT",
        "file to write, - for standard output; optional in a pipe. The file"
        " appears only when it is complete",
        type=_filled,
        dest="destination",
    ),
    declared.Argument(
        "-f",
        "--force",
        action="store_true",
        help="replace the output that belongs to FILE if it exists; FILE"
        " itself is kept in any case",
    ),
    option(
        "size-bytes",
        "N",
        "size of the input, for pipes and devices; without it, the command"
        " first copies up to 1 GiB of input to a temporary file. Input of"
        " a different size fails with SIZE_MISMATCH, except from devices such"
        " as /dev/zero",
        type=int,
    ),
    declared.Group(
        "parameters of the accelerator",
        option(
            "param",
            "NAME=VALUE",
            "parameter of the accelerator, such as level=3 or missing=0,4, in"
            " the form that --list shows; may be repeated. In a chain,"
            " STAGE:NAME=VALUE, also in the two options below, where STAGE is"
            " a name or a number from 1",
            action="append",
            default=[],
        ),
        option(
            "param-json",
            "NAME=JSON",
            "parameter as JSON, where --param would be ambiguous",
            action="append",
            default=[],
        ),
        option(
            "param-file",
            "NAME=FILE",
            "string parameter read from a file, for secrets: all users of the"
            " machine can see a command line",
            action="append",
            default=[],
        ),
        option(
            "key-file",
            "FILE",
            "file that contains the parameter 'key', raw or as hexadecimal"
            " digits; aes and aes-cbc need 16, 24 or 32 bytes",
            type=_filled,
        ),
        declared.OneOf(
            option("iv", "HEX", "the parameter 'iv', 32 hexadecimal digits"),
            option(
                "iv-file",
                "FILE",
                "file that contains the IV as hexadecimal digits",
                type=_filled,
            ),
        ),
    ),
    declared.Group(
        "options of aes and aes-cbc",
        declared.OneOf(
            declared.constant(
                "encrypt",
                "encrypt",
                "encrypt, even if IN.iv shows that IN is encrypted already."
                " Without --iv and --iv-file, the IV is random and stored in"
                " OUT.iv, or printed if the output is standard output",
                "direction",
            ),
            declared.constant(
                "decrypt",
                "decrypt",
                "decrypt; without --iv and --iv-file, the IV is read from"
                " IN.iv",
                "direction",
            ),
        ),
    ),
    declared.Group(
        "groups",
        option(
            "group",
            "GROUP",
            "name or ID of a group; instead of opening a session, divide the"
            " file into tasks for the group's slots; the accelerator must be"
            " stateless",
            type=_filled,
        ),
    ),
    declared.Group(
        "request",
        declared.OneOf(
            option(
                "socket",
                "PATH",
                "front door socket; without an option that says how to reach"
                " the pool, the command looks for a front door, then an API",
                type=_filled,
            ),
            option(
                "os-cloud",
                "NAME",
                "use the pool's API in this cloud, an entry in clouds.yaml",
                type=_filled,
            ),
            option(
                "api-url",
                "URL",
                "use an API without Keystone, such as that of"
                " fpgapool-allinone --api-port",
                type=_filled,
            ),
        ),
        flag(
            "require-tls",
            "fail with TLS_REQUIRED instead of sending data to another host,"
            " or requests to an API, without TLS (Env:"
            " FPGAPOOL_REQUIRE_TLS=1)",
        ),
        option(
            "timeout",
            "S",
            "give up after this many seconds in total",
            type=float,
        ),
        *map(_requested, REQUESTED),
        declared.Argument(
            "--fallback",
            choices=["cpu"],
            help="compute on this machine's CPU if the pool is unreachable or"
            " provides no slot within --wait-timeout",
        ),
        declared.Argument(
            "--meanwhile",
            choices=["cpu"],
            help="compute on this machine's CPU until a slot can take over;"
            " for accelerators that are stateless or have checkpoints",
        ),
        flag(
            "checksum",
            "verify input and output end to end; fail with CHECKSUM_MISMATCH"
            " if data changes between this machine and the board",
        ),
        option("request-id", "ID", "name that identifies the request"),
        flag(
            "dry-run",
            "report whether a slot is free now and, if not, why and the"
            " expected wait. The exit status is 1 if the pool would refuse the"
            " request",
        ),
    ),
    flag(
        "list",
        "show the accelerators with their parameters, rates and free slots",
        dest="lists",
    ),
    flag("json", "print the report or the error as JSON"),
    flag(
        "verbose",
        "if no pool is found, also print where the command looked for one",
    ),
)


def parser() -> argparse.ArgumentParser:
    """Return the parser; it raises UsageError."""
    made = _Parser(
        prog=PROGRAM,
        # --key would mean --key-file, and the error would show the key.
        allow_abbrev=False,
        description="Send a file or a pipe through an accelerator of the "
        "pool.",
        epilog="Encrypt: fpgapool-run aes --key-file KEY --in FILE --out "
        "FILE.enc. Decrypt: fpgapool-run aes --decrypt --key-file KEY --in "
        "FILE.enc --out FILE. Exit status: 0 done, 1 failed, 2 invalid usage, "
        "130 interrupted.",
    )
    declared.add(_DECLARED, made)
    declared.VERSION.add_to(made)
    completion.add_argument(made)
    # Those of a chain; parse() finds them.
    made.set_defaults(stages=())
    return made


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line.

    :raises UsageError: if it is invalid. The message omits the values of
        unknown options, which may be keys.
    """
    made = parser()
    words = _joined(words)
    # FILE may come after options, which plain parsing would not allow.
    found, unknown = made.parse_known_intermixed_args(words)
    options = [one for one in unknown if one.startswith("-")]
    if options:
        given = [one.partition("=")[0] for one in options]
        near = names.hint(given[0], made.flags())
        made.error(f"unknown option: {' '.join(given)}{near}")
    if unknown:
        made.error(
            f"unexpected argument {unknown[0]!r} after FILE: one file at a"
            " time is taken"
        )
    stages = [one.strip() for one in (found.accelerator or "").split(PLUS)]
    if found.file == PLUS or (len(stages) > 1 and not all(stages)):
        made.error(f"name a stage before and after each {PLUS}")
    found.stages = tuple(stages) if len(stages) > 1 else ()
    return found


def _joined(words: Sequence[str]) -> list[str]:
    """Join the stages of a chain to one word."""
    left, found = list(words), list[str]()
    while left:
        word = left.pop(0)
        if word == PLUS and found and left:
            found[-1] += f" {PLUS} {left.pop(0)}"
        else:
            found.append(word)
    return found


def has_output(arguments: argparse.Namespace) -> bool:
    """Return whether the command runs an accelerator."""
    return arguments.accelerator is not None and not (
        arguments.lists or arguments.dry_run
    )


def check(arguments: argparse.Namespace) -> None:
    """Check for missing, invalid and conflicting arguments.

    :raises UsageError: if there are any.
    """
    if arguments.lists:
        if arguments.accelerator is not None:
            raise UsageError("--list shows all accelerators; do not name one")
        return
    if arguments.accelerator is None:
        raise UsageError("specify an accelerator; --list shows all")
    if arguments.size_bytes is not None and arguments.size_bytes < 0:
        raise UsageError("--size-bytes must be at least 0")
    if arguments.stages:
        for name, flag in _NOT_OF_CHAINS:
            if getattr(arguments, name) not in (None, False):
                raise UsageError(f"{flag} cannot be used with a chain")
    if arguments.group is None:
        return
    if arguments.dry_run:
        raise UsageError("--dry-run cannot be used with --group")
    for name, flag in _SESSION_OPTIONS:
        if getattr(arguments, name) not in (None, False, 0):
            raise UsageError(f"{flag} cannot be used with --group")
