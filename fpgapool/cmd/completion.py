# SPDX-License-Identifier: Apache-2.0

"""Shell completion for the commands.

One option of ``fpgapool-run`` prints the script for all commands, so that a
shell's start-up file needs only one line. The script covers the commands whose
libraries are installed.
"""

from __future__ import annotations

import argparse
import collections.abc
import contextlib
import importlib
import typing

SHELLS = ("bash", "zsh", "tcsh")

#: Metavars whose values are file names.
_FILES = {"DIR", "FILE", "IN", "OUT", "PATH", "SCENARIO"}
# Commands with oslo.config sub-commands, and a valid command line for each.
_CATEGORIES = {"manage": ("db", "version"), "status": ("upgrade", "check")}


def add_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--completion",
        action=_Print,
        choices=SHELLS,
        metavar="SHELL",
        help="print a shell completion script for all fpgapool commands; "
        "supported shells: " + ", ".join(SHELLS),
    )


class _Print(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: typing.Any,
        option_string: str | None = None,
    ) -> None:
        try:
            print(script(values, parser))
        except ModuleNotFoundError as exc:
            if exc.name != "shtab":
                raise
            parser.error(
                "--completion requires shtab: pip install 'fpgapool[cli]'"
            )
        parser.exit()


def script(shell: str, running: argparse.ArgumentParser) -> str:
    """Return the completion of all installed commands.

    :raises ModuleNotFoundError: if ``shtab`` is not installed.
    """
    import shtab

    texts = []
    for parser in (running, *_others()):
        _complete_files(parser, shtab.FILE)
        texts.append(shtab.complete(parser, shell))
    return "\n".join(texts)


def _others() -> collections.abc.Iterator[argparse.ArgumentParser]:
    for name in ("allinone", "dev", "sim", "yarn_labels"):
        with contextlib.suppress(ModuleNotFoundError):
            yield _command(name).parser()
    for name, words in _CATEGORIES.items():
        with contextlib.suppress(ModuleNotFoundError):
            command = _command(name)
            yield _configured(
                command.PROGRAM, command.register_commands, words
            )
    for name in ("agent", "conductor"):
        with contextlib.suppress(ModuleNotFoundError):
            yield _configured(f"fpgapool-{name}")


def _command(name: str) -> typing.Any:
    return importlib.import_module(f"fpgapool.cmd.{name}")


def _configured(
    program: str,
    register: collections.abc.Callable[[typing.Any], object] = lambda _: None,
    words: collections.abc.Sequence[str] = (),
) -> argparse.ArgumentParser:
    """Return the parser that oslo.config makes from a program's options."""
    from oslo_config import cfg
    from oslo_log import log

    conf = cfg.ConfigOpts()
    register(conf)
    log.register_options(conf)
    conf(list(words), prog=program, version="", default_config_files=[])
    parser: argparse.ArgumentParser = conf._oparser
    return parser


def _complete_files(
    parser: argparse.ArgumentParser, files: dict[str, str]
) -> None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in set(action.choices.values()):
                _complete_files(one, files)
        elif action.metavar in _FILES:
            action.complete = files  # type: ignore[attr-defined]
