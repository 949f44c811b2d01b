# SPDX-License-Identifier: Apache-2.0

"""Payloads of notifications.

They have the usual form of OpenStack notifications: ``fpgapool_object.name``,
``.namespace``, ``.version`` and ``.data``. As in remote calls, the minor
version is raised when a member is added.
"""

import dataclasses
from typing import Any

from fpgapool.objects import base
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import group
from fpgapool.vocabulary import inventory
from fpgapool.vocabulary import session as description

NAMESPACE = "fpgapool"
_PREFIX = "fpgapool_object."


@dataclasses.dataclass(frozen=True, kw_only=True)
@fields.with_members(base.notification_members(inventory.HOST))
class HostPayload(base.Payload):
    """A compute node."""

    host_uuid: str
    host_name: str


@dataclasses.dataclass(frozen=True, kw_only=True)
@fields.with_members(base.notification_members(inventory.DEVICE))
class DevicePayload(base.Payload):
    """A board; ``device_id`` identifies it in the REST API."""

    device_id: str
    device: str
    host_uuid: str
    host_name: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlacePayload(base.Payload):
    """A slot that a session has or had; the ids are those of the REST API."""

    slot_id: str
    slot: int
    device_id: str
    device: str
    host_uuid: str
    host_name: str


@dataclasses.dataclass(frozen=True, kw_only=True)
@fields.with_members(base.notification_members(inventory.SLOT))
class SlotPayload(PlacePayload):
    """A slot of a board."""


@dataclasses.dataclass(frozen=True, kw_only=True)
@fields.with_members(base.notification_members(description.FIELDS))
class SessionPayload(base.Payload):
    """A session. Times are in ISO 8601, in UTC.

    It contains no secrets, endpoints or parameters; a parameter may be a key.
    """

    VERSION = base.version(
        one.in_notification for one in description.FIELDS.in_notification
    )

    place: PlacePayload | None


@dataclasses.dataclass(frozen=True, kw_only=True)
@fields.with_members(base.notification_members(group.GROUP))
class GroupPayload(base.Payload):
    """A group. Times are in ISO 8601, in UTC."""

    VERSION = base.version(
        one.in_notification for one in group.GROUP.in_notification
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
@fields.with_members(base.notification_members(group.CLIENT))
class GroupClientPayload(base.Payload):
    """A client of a group, without its secret."""

    VERSION = base.version(
        one.in_notification for one in group.CLIENT.in_notification
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class BudgetPayload(base.Payload):
    """How much of a project's budget is used.

    :param state: ``within``, ``near`` (at least 80 %) or ``exhausted``.
    """

    project_id: str
    state: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReservationPayload(base.Payload):
    """A reservation by calendar. Times are in ISO 8601, in UTC.

    :param start_at: the present or next start.
    :param working_slots: how many of its slots work.
    """

    reservation_id: str
    project_id: str
    name: str
    accelerator: str
    slots: int
    start_at: str
    end_at: str
    state: str
    working_slots: int


#: All payloads that a notification may have.
PAYLOADS = (
    HostPayload,
    DevicePayload,
    SlotPayload,
    SessionPayload,
    GroupPayload,
    GroupClientPayload,
    BudgetPayload,
    ReservationPayload,
)


def to_notification(payload: base.Payload) -> dict[str, Any]:
    """Return a payload in the form of notifications."""
    return {
        f"{_PREFIX}name": type(payload).__name__,
        f"{_PREFIX}namespace": NAMESPACE,
        f"{_PREFIX}version": payload.VERSION,
        f"{_PREFIX}data": {
            name: _plain(getattr(payload, name))
            for name in base.members(payload)
        },
    }


def _plain(value: Any) -> Any:
    return to_notification(value) if isinstance(value, base.Payload) else value
