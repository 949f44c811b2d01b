# SPDX-License-Identifier: Apache-2.0

"""Payloads of notifications.

They have the usual form of OpenStack: ``fpgapool_object.name``,
``.namespace``, ``.version`` and ``.data``. As in remote calls, the minor
version grows when a member is added.
"""

import dataclasses
from typing import Any

from fpgapool.objects import base
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import group
from fpgapool.vocabulary import session as description

NAMESPACE = "fpgapool"
_PREFIX = "fpgapool_object."


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostPayload(base.Payload):
    """A compute node.

    :ivar up: whether its agent reports.
    :ivar admin_state: set by the operator: enabled, draining, disabled.
    """

    host_uuid: str
    host_name: str
    nic_bytes_per_s: float
    up: bool
    admin_state: str
    admin_reason: str
    drain_deadline_at: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class DevicePayload(base.Payload):
    """A board.

    :ivar device_id: its name in the REST API.
    """

    device_id: str
    device: str
    host_uuid: str
    host_name: str
    model: str
    dma_bytes_per_s: float
    healthy: bool
    fault_reason: str
    admin_state: str
    admin_reason: str
    drain_deadline_at: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class SlotPayload(base.Payload):
    """A slot of a board.

    :ivar slot_id: its name in the REST API.
    """

    slot_id: str
    slot: int
    device_id: str
    device: str
    host_uuid: str
    host_name: str
    shape: str
    programmed: str | None
    faulty: bool
    fault_reason: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlacePayload(base.Payload):
    """The slot that a session has or had."""

    slot_id: str
    slot: int
    device_id: str
    device: str
    host_uuid: str
    host_name: str


@dataclasses.dataclass(frozen=True, kw_only=True)
@fields.with_members(base.noted(description.FIELDS))
class SessionPayload(base.Payload):
    """A session. Times are in ISO 8601, in UTC.

    It has no parameters, which may hold keys, no secrets and no endpoints.
    """

    VERSION = f"1.{max(one.noted or 0 for one in description.FIELDS.noted)}"

    place: PlacePayload | None


@dataclasses.dataclass(frozen=True, kw_only=True)
@fields.with_members(base.noted(group.GROUP))
class GroupPayload(base.Payload):
    """A group. Times are in ISO 8601, in UTC."""

    VERSION = f"1.{max(one.noted or 0 for one in group.GROUP.noted)}"


@dataclasses.dataclass(frozen=True, kw_only=True)
@fields.with_members(base.noted(group.CLIENT))
class GroupClientPayload(base.Payload):
    """A client of a group, without its secret."""

    VERSION = f"1.{max(one.noted or 0 for one in group.CLIENT.noted)}"


#: All payloads that a notification may have.
PAYLOADS = (
    HostPayload,
    DevicePayload,
    SlotPayload,
    SessionPayload,
    GroupPayload,
    GroupClientPayload,
)


def to_notification(payload: base.Payload) -> dict[str, Any]:
    """Return a payload in the form of notifications.

    :param payload: its members are plain values or payloads.
    """
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
