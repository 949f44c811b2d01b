# SPDX-License-Identifier: Apache-2.0

"""Commands for reservations by calendar."""

from __future__ import annotations

import argparse
import datetime
from typing import Any

from osc_lib import exceptions

from fpgapool.common import arguments
from fpgapool.osc.sdk import reservation as sdk
from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import names
from fpgapool.osc.v1 import projects
from fpgapool.vocabulary import reservation

_RESERVATION = base.positional(
    "reservation", "ID of the reservation, or its name if that is unique"
)
_seconds = arguments.number(float, "a number of seconds", 0)
#: Options whose value is a member of the request.
_MEMBERS = (
    "accelerator",
    "slots",
    "start_at",
    "end_at",
    "name",
    "repeat",
    "times",
    "grace_s",
)


def _options(*, required: bool) -> tuple[arguments.Declared, ...]:
    """Return the options of what is reserved.

    :param required: whether what has no default is required.
    """
    return (
        base.option(
            "accelerator",
            "name of the accelerator for which the slots are reserved",
            required=required,
        ),
        base.option(
            "slots",
            "number of slots",
            type=base.positive,
            required=required,
        ),
        *_times(required=required),
        base.option(
            "grace",
            "its slots are released when they were not used for so many"
            f" seconds; by default {reservation.GRACE_S:g}, 0: never",
            metavar="<seconds>",
            dest="grace_s",
            type=_seconds,
        ),
        base.option(
            "host",
            "a host that its slots may be on (name or UUID; repeat the option"
            " for several); by default any",
            dest="hosts",
            action="append",
            type=base.identifier,
        ),
        base.option(
            "host-aggregate",
            "its slots may be on the hosts that this aggregate of Nova has now"
            " (name or ID)",
        ),
        base.option(
            "device",
            "the device of its slots (ID, or HOST/DEVICE)",
            type=base.of_host,
        ),
    )


def _times(*, required: bool) -> tuple[arguments.Declared, ...]:
    return (
        base.option(
            "start",
            "when it begins (ISO 8601, such as 2026-12-01T08:00:00; UTC by"
            " default)" + ("; by default now" if required else ""),
            metavar="<time>",
            dest="start_at",
            type=base.time_text,
        ),
        base.option(
            "end",
            "when it ends (ISO 8601)",
            metavar="<time>",
            dest="end_at",
            type=base.time_text,
            required=required,
        ),
        base.option(
            "repeat",
            "how often it recurs; by default never",
            choices=reservation.REPEATS,
        ),
        base.option(
            "times",
            "how often it begins, the first time included; at most"
            f" {reservation.MAX_TIMES}",
            type=base.positive,
        ),
    )


def _given(
    asked: base.Command, parsed_args: argparse.Namespace
) -> dict[str, Any]:
    """Return the given options as members of a request."""
    found = base.given(
        **{name: getattr(parsed_args, name) for name in _MEMBERS}
    )
    hosts = [
        names.find(asked.client, "host", host)
        for host in parsed_args.hosts or ()
    ]
    if parsed_args.host_aggregate is not None:
        hosts += _of_aggregate(asked, parsed_args.host_aggregate)
    if hosts:
        found["host_uuids"] = hosts
    if parsed_args.device is not None:
        found["device_id"] = names.find(
            asked.client, "device", parsed_args.device
        )
    return found


def _of_aggregate(asked: base.Command, aggregate: str) -> list[str]:
    """Return the UUIDs of the pool's hosts in an aggregate of Nova.

    :raises CommandError: if there are none.
    """
    found = asked.connection.compute.find_aggregate(
        aggregate, ignore_missing=False
    )
    wanted = set(found.hosts or ())
    hosts = [one.id for one in asked.client.hosts() if one.name in wanted]
    if not hosts:
        raise exceptions.CommandError(
            f"no host of aggregate {aggregate!r} is in the pool"
        )
    return hosts


class ShowReservation(base.ShowCommand):
    """Show a reservation."""

    kind = "reservation"
    described = reservation.FIELDS
    hidden = ("links",)
    arguments: base.Arguments = (_RESERVATION,)


class CreateReservation(ShowReservation):
    """Reserve slots for a project, from a time to another."""

    arguments = (
        *_options(required=True),
        base.option("name", "name of the reservation; need not be unique"),
        *projects.one(
            "the project that has the slots (name or ID); default is your own"
        ),
    )

    def act(self, parsed_args: argparse.Namespace) -> sdk.Reservation:
        now = datetime.datetime.now(datetime.UTC)
        return self.client.create_reservation(
            **{
                "start_at": now.isoformat(),
                **_given(self, parsed_args),
                **projects.query(self, parsed_args),
            }
        )


class ListReservations(base.ListCommand):
    """List the reservations of your project."""

    described = reservation.FIELDS
    method = "reservations"
    filters = ("name", "accelerator", "state", "all_projects")
    arguments = (
        base.option("name", "list only reservations with this name"),
        base.option(
            "accelerator", "list only reservations with this accelerator"
        ),
        base.option(
            "state",
            "list only reservations in this state",
            choices=reservation.STATES,
        ),
        base.ALL_PROJECTS,
        *projects.one("list only reservations of this project (name or ID)"),
    )

    def query(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        return super().query(parsed_args) | projects.query(self, parsed_args)


class SetReservation(ShowReservation):
    """Move, extend or cut short a reservation, or change its slots."""

    arguments = (
        _RESERVATION,
        *_options(required=False),
        base.option("name", "new name of the reservation"),
    )

    def act(self, parsed_args: argparse.Namespace) -> sdk.Reservation:
        changes = _given(self, parsed_args)
        if not changes:
            raise exceptions.CommandError("specify at least one option to set")
        return self.client.update_reservation(
            self.named(parsed_args), **changes
        )


class DeleteReservation(base.EachCommand):
    """Delete reservations; their slots are free for all."""

    kind = "reservation"
    done = "deleted"
    arguments = (
        base.positional(
            "reservations",
            "ID of a reservation, or its name if that is unique",
            nargs="+",
        ),
    )
