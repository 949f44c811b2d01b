# SPDX-License-Identifier: Apache-2.0
"""What commands that enable, drain or disable have in common."""

from __future__ import annotations

import argparse
from typing import Any

from osc_lib import exceptions

from fpgapool.osc.v1 import base


def add_options(
    parser: argparse.ArgumentParser, effect: str, *, required: bool = True
) -> None:
    """Add what is to become of it.

    :param parser: gets them.
    :param effect: what sessions lose.
    :param required: whether one of them must be given.
    """
    group = parser.add_mutually_exclusive_group(required=required)
    group.add_argument(
        "--enable",
        dest="state",
        action="store_const",
        const="enabled",
        help=f"let sessions have {effect} again, also if it was taken out of"
        " use for its failures",
    )
    group.add_argument(
        "--disable",
        dest="state",
        action="store_const",
        const="disabled",
        help=f"let no new session have {effect}; those that have one keep it",
    )
    group.add_argument(
        "--drain",
        dest="state",
        action="store_const",
        const="draining",
        help="give no slot to further sessions, and disable it when the last"
        " session has gone",
    )
    parser.add_argument(
        "--deadline",
        metavar="<seconds>",
        type=_seconds,
        help="with --drain: take the slots from the sessions that are left"
        " after so many seconds; those with stateless accelerators go on"
        " elsewhere",
    )
    parser.add_argument(
        "--reason",
        metavar="<text>",
        help="why; lists and details show it",
    )


def wish(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Return what is asked for.

    :raises CommandError: if it contradicts itself.
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
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return number
