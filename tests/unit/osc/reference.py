# SPDX-License-Identifier: Apache-2.0

"""The part of the documentation that is made of the commands.

``python -m tests.unit.osc.reference`` writes it.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Iterator
from importlib import metadata

from fpgapool.osc import plugin

GROUP = "openstack.fpgapool.v1"
DOCUMENT = pathlib.Path(__file__).parents[3] / "doc/source/user/cli.rst"

_MARKER = ".. Written by 'python -m tests.unit.osc.reference'; do not edit.\n"
# What cliff adds for formats is the same for all commands.
_OWN_GROUPS = ("positional arguments", "options")


def commands() -> list[metadata.EntryPoint]:
    """Return the commands, in the order of their names."""
    return sorted(
        metadata.entry_points(group=GROUP), key=lambda entry: entry.name
    )


def parser_of(entry_point: metadata.EntryPoint) -> argparse.ArgumentParser:
    """Return what understands a command's line."""
    name = f"openstack {entry_point.name.replace('_', ' ')}"
    parser: argparse.ArgumentParser = entry_point.load()(
        None, None
    ).get_parser(name)
    return parser


def own_actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return arguments and options that other commands may not have."""
    return [
        action
        for group in parser._action_groups
        if group.title in _OWN_GROUPS
        for action in group._group_actions
        if "--help" not in action.option_strings
    ]


def document(text: str) -> str:
    """Return the document as it should be.

    :param text: as it is; what is before the marker stays.
    """
    kept, marker, _ = text.partition(_MARKER)
    assert marker, f"{DOCUMENT} lacks its marker"
    return kept + marker + "\n" + "\n".join(_lines())


def _lines() -> Iterator[str]:
    parser = plugin.build_option_parser(
        argparse.ArgumentParser(add_help=False)
    )
    yield from _titled("Before the command")
    for action in parser._actions:
        yield from _described(action)
    for entry_point in commands():
        parser = parser_of(entry_point)
        yield from _titled(parser.prog)
        yield f"{entry_point.load().__doc__}"
        yield ""
        for action in own_actions(parser):
            yield from _described(action)


def _titled(text: str) -> Iterator[str]:
    yield text
    yield "=" * len(text)
    yield ""


def _described(action: argparse.Action) -> Iterator[str]:
    metavar = action.metavar
    if action.choices is not None and metavar is None:
        metavar = f"{{{','.join(action.choices)}}}"
    names = [*action.option_strings, metavar if action.nargs != 0 else ""]
    more = " [...]" if action.nargs == "+" else ""
    yield f"``{' '.join(filter(None, map(str, names)))}{more}``"
    yield f"    {str(action.help)[:1].upper()}{str(action.help)[1:]}."
    yield ""


if __name__ == "__main__":
    DOCUMENT.write_text(document(DOCUMENT.read_text()).rstrip() + "\n")
