#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.
"""What commands that enable, drain or disable have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

from openstack import resource
from osc_lib import exceptions
from osc_lib import utils

from fpgapool.osc.v1 import base

# Names are the same on many hosts of a large cloud.
_MAX_CANDIDATES = 20


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
        help="the same, and disable it when the last session has gone",
    )
    parser.add_argument(
        "--deadline",
        metavar="<seconds>",
        type=_seconds,
        help="with --drain: take the slots from those who are left after so"
        " many seconds; sessions of stateless accelerators go on elsewhere",
    )
    parser.add_argument(
        "--reason",
        metavar="<text>",
        help="why, for whoever looks at it",
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


def find(
    text: str,
    members: Callable[[], Iterable[resource.Resource]],
    describe: Callable[[resource.Resource], str],
) -> str:
    """Return the identifier of what is named.

    :param text: its identifier, or its name if nothing else has that.
    :param members: lists all.
    :param describe: what tells one from another, with its identifier.
    :raises CommandError: if nothing has the name, or several have.
    """
    if utils.is_uuid_like(text):
        return text
    found = [one for one in members() if one.name == text]
    if len(found) == 1:
        identifier: str = found[0].id
        return identifier
    if not found:
        raise exceptions.CommandError(f"nothing is called {text!r}")
    shown = "\n".join(sorted(map(describe, found))[:_MAX_CANDIDATES])
    raise exceptions.CommandError(
        f"{len(found)} are called {text!r}; say which by its ID:\n{shown}"
    )


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return number
