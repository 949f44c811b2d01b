# SPDX-License-Identifier: Apache-2.0
"""Options of the commands that enable, drain or disable hardware."""

from __future__ import annotations

import argparse
import functools
from typing import Any

from osc_lib import exceptions

from fpgapool.common import arguments
from fpgapool.osc.v1 import base


def options(
    effect: str, *, required: bool = True
) -> tuple[arguments.Declared, ...]:
    """Return the options for the new state.

    :param effect: what sessions receive or are denied, for the help text.
    """

    state = functools.partial(arguments.constant, dest="state")
    return (
        arguments.OneOf(
            state(
                "enable",
                "enabled",
                f"offer {effect} to sessions again, and reset its failures",
            ),
            state(
                "disable",
                "disabled",
                f"do not give {effect} to new sessions; running sessions keep"
                " theirs",
            ),
            state(
                "drain",
                "draining",
                "do not give slots to new sessions; disable the hardware when"
                " the last session has ended",
            ),
            required=required,
        ),
        base.option(
            "deadline",
            "with --drain: after this many seconds, revoke the slots of the"
            " remaining sessions; those with stateless accelerators continue"
            " in other slots",
            metavar="<seconds>",
            type=arguments.number(float, "a number of seconds", 0),
        ),
        base.option(
            "reason",
            "reason, shown by the list and show commands; without it, the"
            " former reason stays until the hardware is enabled",
            metavar="<text>",
        ),
    )


def change(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Return the requested change.

    :raises CommandError: if the options contradict each other.
    """
    if parsed_args.deadline is not None and parsed_args.state != "draining":
        raise exceptions.CommandError("--deadline requires --drain")
    if parsed_args.reason is not None and parsed_args.state is None:
        raise exceptions.CommandError(
            "--reason requires --enable, --disable or --drain"
        )
    return base.given(
        state=parsed_args.state,
        reason=parsed_args.reason,
        drain_deadline_s=parsed_args.deadline,
    )
