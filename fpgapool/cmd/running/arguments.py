# SPDX-License-Identifier: Apache-2.0

"""The command line of ``fpgapool-run``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from fpgapool import version
from fpgapool.cmd import completion
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import session as description

PROGRAM = "fpgapool-run"
#: Means standard input or output.
STANDARD = "-"

#: What the pool is asked for with a session.
REQUESTED = tuple(
    one
    for one in description.FIELDS.options
    if one.name in description.Options.__annotations__
)
# Options that have no meaning for a group: their attributes, and flags.
_SESSION_OPTIONS = (
    *((one.name, one.flag) for one in REQUESTED),
    ("fallback", "--fallback"),
    ("meanwhile", "--meanwhile"),
    ("checksum", "--checksum"),
    ("request_id", "--request-id"),
)


class UsageError(Exception):
    """The command line is wrong."""


class _Parser(argparse.ArgumentParser):
    """Raises its errors, so that ``--json`` applies to them."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; {PROGRAM} --help lists the options")


def _filled(text: str) -> str:
    """Refuse a name that is empty, such as that of an unset variable.

    :raises argparse.ArgumentTypeError: if it is.
    """
    if not text:
        raise argparse.ArgumentTypeError("it is empty")
    return text


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
        "FILE.enc --out FILE. Exit status: 0 done, 1 failed, 2 wrong usage, "
        "130 interrupted.",
    )
    made.add_argument(
        "accelerator",
        nargs="?",
        help="name, for example aes or copy; --list shows all",
    )
    _add_files(made)
    _add_params(made.add_argument_group("parameters of the accelerator"))
    _add_ciphers(made.add_argument_group("options of aes and aes-cbc"))
    made.add_argument_group("groups").add_argument(
        "--group",
        type=_filled,
        metavar="GROUP",
        help="name or ID of a group: divide the file into tasks of its "
        "members, instead of opening a session; the accelerator must be "
        "stateless",
    )
    request = made.add_argument_group("request")
    _add_door(request)
    _add_request(request)
    made.add_argument(
        "--list",
        action="store_true",
        dest="lists",
        help="show the accelerators with their parameters, rates and free "
        "slots",
    )
    made.add_argument(
        "--json",
        action="store_true",
        help="print the report, or the failure, as JSON",
    )
    made.add_argument(
        "--version", action="version", version=version.version_string()
    )
    completion.add_argument(made)
    return made


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line.

    :raises UsageError: if it is wrong. What is unknown is named without the
        values, which may be keys.
    """
    made = parser()
    found, unknown = made.parse_known_args(words)
    options = [one for one in unknown if one.startswith("-")]
    if options:
        names = " ".join(one.partition("=")[0] for one in options)
        made.error(f"unknown option: {names}")
    if unknown:
        made.error(f"one accelerator is expected, and then {unknown[0]!r}")
    return found


def _add_files(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--in",
        type=_filled,
        dest="source",
        metavar="IN",
        help="file to read, - for standard input; optional in a pipe",
    )
    made.add_argument(
        "--out",
        type=_filled,
        dest="destination",
        metavar="OUT",
        help="file to write, - for standard output; optional in a pipe. The "
        "file appears only when it is complete",
    )
    made.add_argument(
        "--size-bytes",
        type=int,
        metavar="N",
        help="size of the input, for pipes and devices; without it the "
        "command first copies up to 1 GiB of input to a temporary file. Input "
        "of another size fails with SIZE_MISMATCH, except on devices such as "
        "/dev/zero",
    )


def _add_params(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help="string parameter of the accelerator; may be repeated",
    )
    group.add_argument(
        "--param-json",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="parameter that is not a string, for example level=3",
    )
    group.add_argument(
        "--param-file",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="string parameter read from a file, for secrets: all users of "
        "the machine can see a command line",
    )
    group.add_argument(
        "--key-file",
        type=_filled,
        metavar="FILE",
        help="the parameter key, raw or as hexadecimal digits; for aes and "
        "aes-cbc 16, 24 or 32 bytes",
    )
    iv = group.add_mutually_exclusive_group()
    iv.add_argument(
        "--iv", metavar="HEX", help="the parameter iv, 32 hexadecimal digits"
    )
    iv.add_argument(
        "--iv-file",
        type=_filled,
        metavar="FILE",
        help="file that contains the IV as hexadecimal digits",
    )


def _add_ciphers(group: argparse._ArgumentGroup) -> None:
    direction = group.add_mutually_exclusive_group()
    direction.add_argument(
        "--encrypt",
        action="store_const",
        const="encrypt",
        dest="direction",
        help="encrypt, even if IN.iv shows that IN is encrypted already. "
        "Without --iv and --iv-file, the IV is random and stored in OUT.iv, "
        "or printed if the output is standard output",
    )
    direction.add_argument(
        "--decrypt",
        action="store_const",
        const="decrypt",
        dest="direction",
        help="decrypt; without --iv and --iv-file, the IV is read from IN.iv",
    )


def _add_door(pool: argparse._ArgumentGroup) -> None:
    door = pool.add_mutually_exclusive_group()
    door.add_argument(
        "--socket",
        type=_filled,
        metavar="PATH",
        help="socket of the front door; default: the first way to reach the "
        "pool that is found",
    )
    door.add_argument(
        "--os-cloud",
        type=_filled,
        metavar="NAME",
        help="use the API of this cloud in clouds.yaml, as a VM does",
    )
    door.add_argument(
        "--api-url",
        type=_filled,
        metavar="URL",
        help="use an API without Keystone, such as that of "
        "fpgapool-allinone --api-port",
    )
    pool.add_argument(
        "--require-tls",
        action="store_true",
        help="fail with TLS_REQUIRED instead of sending data to another host, "
        "or requests to an API, without TLS (Env: FPGAPOOL_REQUIRE_TLS=1)",
    )


def _add_request(pool: argparse._ArgumentGroup) -> None:
    pool.add_argument(
        "--timeout",
        type=float,
        metavar="S",
        help="give up after this many seconds in total",
    )
    for option in REQUESTED:
        is_time = option.kind is fields.SECONDS
        is_number = option.kind is fields.COUNT
        pool.add_argument(
            option.flag,
            dest=option.name,
            type=option.kind.type,
            choices=option.limits.get("enum"),
            metavar=None
            if "enum" in option.limits
            else ("S" if is_time else "N" if is_number else "NAME"),
            help=option.help,
        )
    pool.add_argument(
        "--fallback",
        choices=["cpu"],
        help="compute on this machine's CPU if the pool is away or has no "
        "slot within --wait-timeout",
    )
    pool.add_argument(
        "--meanwhile",
        choices=["cpu"],
        help="compute on this machine's CPU until a slot can take over; for "
        "accelerators that are stateless or have checkpoints",
    )
    pool.add_argument(
        "--checksum",
        action="store_true",
        help="verify input and output end to end; fail with "
        "CHECKSUM_MISMATCH if they change between here and the board",
    )
    pool.add_argument(
        "--request-id", metavar="ID", help="name that identifies the request"
    )
    pool.add_argument(
        "--dry-run",
        action="store_true",
        help="report whether a slot is free now; if not, why and the expected "
        "wait. The exit status is 1 if the pool would refuse the request",
    )


def has_output(arguments: argparse.Namespace) -> bool:
    """Whether the command runs an accelerator."""
    return arguments.accelerator is not None and not (
        arguments.lists or arguments.dry_run
    )


def check(arguments: argparse.Namespace) -> None:
    """Check options that exclude each other.

    :raises UsageError: if there are some.
    """
    if arguments.lists:
        if arguments.accelerator is not None:
            raise UsageError("--list shows all accelerators; do not name one")
        return
    if arguments.accelerator is None:
        raise UsageError("name an accelerator; --list shows them")
    if arguments.size_bytes is not None and arguments.size_bytes < 0:
        raise UsageError("--size-bytes must be at least 0")
    if arguments.group is None:
        return
    if arguments.dry_run:
        raise UsageError("--dry-run is for sessions, not for --group")
    for name, flag in _SESSION_OPTIONS:
        if getattr(arguments, name) not in (None, False, 0):
            raise UsageError(f"{flag} is for sessions, not for --group")
