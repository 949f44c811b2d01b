# SPDX-License-Identifier: Apache-2.0
"""Options of the commands that enable, drain or disable."""

from __future__ import annotations

import argparse
from typing import Any

from osc_lib import exceptions

from fpgapool.osc.v1 import base


def add_options(
    parser: argparse.ArgumentParser, effect: str, *, required: bool = True
) -> None:
    """Add the options for the new state.

    :param effect: the thing that sessions lose, for the help.
    :param required: whether one of them must be given.
    """
    group = parser.add_mutually_exclusive_group(required=required)
    group.add_argument(
        "--enable",
        dest="state",
        action="store_const",
        const="enabled",
        help=f"let sessions have {effect} again, and reset its failures",
    )
    group.add_argument(
        "--disable",
        dest="state",
        action="store_const",
        const="disabled",
        help=f"give {effect} to no new session; running sessions keep theirs",
    )
    group.add_argument(
        "--drain",
        dest="state",
        action="store_const",
        const="draining",
        help="give no slot to new sessions, and disable it when the last"
        " session has ended",
    )
    parser.add_argument(
        "--deadline",
        metavar="<seconds>",
        type=_seconds,
        help="with --drain: take the slots from the remaining sessions after"
        " this many seconds; stateless accelerators continue in other slots",
    )
    parser.add_argument(
        "--reason",
        metavar="<text>",
        help="the reason; lists and details show it",
    )


def wish(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Return the requested change.

    :raises CommandError: if the options contradict each other.
    """
    if parsed_args.deadline is not None and parsed_args.state != "draining":
        raise exceptions.CommandError("--deadline is only for --drain")
    if parsed_args.reason is not None and parsed_args.state is None:
        raise exceptions.CommandError(
            "--reason is only for --enable, --disable and --drain"
        )
    return base.given(
        state=parsed_args.state,
        reason=parsed_args.reason,
        drain_deadline_s=parsed_args.deadline,
    )


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds"
        )
    return number
