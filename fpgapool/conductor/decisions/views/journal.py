# SPDX-License-Identifier: Apache-2.0

"""Derives notifications from committed rows.

Rows are its only input, so notifications never show more than the database.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import uuid
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from fpgapool.conductor.decisions.budgets import stored
from fpgapool.core import health
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.db import calendar
from fpgapool.objects import base
from fpgapool.objects import notification
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import group
from fpgapool.vocabulary import inventory
from fpgapool.vocabulary import reservation
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import states

SESSION_QUEUED = "session.queued"
SESSION_END = "session.end"
DEVICE_UPDATE = "device.update"
DEVICE_DRAIN = "device.drain"
DEVICE_FAULT = "device.fault"
SLOT_UPDATE = "slot.update"
SLOT_FAULT = "slot.fault"
HOST_UPDATE = "host.update"
HOST_DRAIN = "host.drain"
HOST_DOWN = "host.down"
GROUP_CREATE = "group.create"
GROUP_UPDATE = "group.update"
GROUP_GOAL_REACH = "group.goal.reach"
GROUP_DELETE = "group.delete"
GROUP_CLIENT_ATTACH = "group.client.attach"
GROUP_CLIENT_REVOKE = "group.client.revoke"
GROUP_CLIENT_END = "group.client.end"
BUDGET_UPDATE = "budget.update"
RESERVATION_UPDATE = "reservation.update"
RESERVATION_DELETE = "reservation.delete"

# Event types of reservations whose state has changed, by state.
_OF_RESERVATIONS = {
    state: f"reservation.{state}" for state in reservation.STATES
}
# Event types of sessions that have not ended, by state.
_STEPS = {
    state: f"session.{state.lower()}"
    for state in (
        states.QUEUED,
        states.PREPARING,
        states.READY,
        states.ACTIVE,
        states.DETACHED,
    )
}
#: All event types, with their payload classes.
EVENTS: dict[str, type[base.Payload]] = {
    type_: payload
    for payload, types in {
        notification.SessionPayload: (*_STEPS.values(), SESSION_END),
        notification.DevicePayload: (
            DEVICE_UPDATE,
            DEVICE_DRAIN,
            DEVICE_FAULT,
        ),
        notification.SlotPayload: (SLOT_UPDATE, SLOT_FAULT),
        notification.HostPayload: (HOST_UPDATE, HOST_DRAIN, HOST_DOWN),
        notification.GroupPayload: (
            GROUP_CREATE,
            GROUP_UPDATE,
            GROUP_GOAL_REACH,
            GROUP_DELETE,
        ),
        notification.GroupClientPayload: (
            GROUP_CLIENT_ATTACH,
            GROUP_CLIENT_REVOKE,
            GROUP_CLIENT_END,
        ),
        notification.BudgetPayload: (BUDGET_UPDATE,),
        notification.ReservationPayload: (
            *_OF_RESERVATIONS.values(),
            RESERVATION_UPDATE,
            RESERVATION_DELETE,
        ),
    }.items()
    for type_ in types
}

# Number of ended sessions to remember, because a session's last row may be
# written twice.
_MAX_ENDED = 10_000
_FAULTS = frozenset({DEVICE_FAULT, SLOT_FAULT, HOST_DOWN})
_ILL_ENDS = frozenset(
    {states.FAILED, states.LOST, reservation.AT_RISK, reservation.FAILED}
)


def _published(described: fields.Fields) -> Callable[[Any], dict[str, Any]]:
    noted = [one for one in described.in_notification if one.in_record]
    copy = fields.copier(one.name for one in noted)
    times = [one.name for one in noted if one.kind is fields.TIME]

    def members(row: Any) -> dict[str, Any]:
        found = copy(row)
        return found | {name: _text(found[name]) for name in times}

    return members


_session_members = _published(description.FIELDS)
_host_members = _published(inventory.HOST)
_device_members = _published(inventory.DEVICE)
_slot_members = _published(inventory.SLOT)
_group_members = _published(group.GROUP)
_client_members = _published(group.CLIENT)


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """A notification."""

    type: str
    payload: base.Payload

    @property
    def is_error(self) -> bool:
        """Whether its priority is error instead of info."""
        state = getattr(self.payload, "state", None)
        return self.type in _FAULTS or state in _ILL_ENDS


class Journal:
    """Compares written rows with the previous ones.

    :param snapshot: the initial rows, for which a former leader sent
        notifications.
    """

    def __init__(self, snapshot: db_api.Snapshot) -> None:
        self._states = {s.id: s.state for s in snapshot.live_sessions}
        self._ended: collections.OrderedDict[int, str] = (
            collections.OrderedDict(
                (s.id, s.state)
                for s in (*snapshot.ending_sessions, *snapshot.failed_sessions)
            )
        )
        self._hosts = {host.id: host for host in snapshot.hosts}
        self._devices = {device.id: device for device in snapshot.devices}
        self._slots = {slot.id: slot for slot in snapshot.slots}
        # The reasons why devices are out of service, by device; the driver may
        # still report these devices as healthy.
        self._faults: dict[int, str] = {}
        self._groups = {one.id: one for one in snapshot.groups}
        self._clients = {one.id for one in snapshot.group_clients}
        self._budgets = {
            row.project_id: row.hard_limit
            for row in snapshot.quotas
            if row.resource == stored.STATE
        }
        self._reservations = {
            row.device_id: found
            for row in snapshot.reservations
            if calendar.is_of_calendar(row)
            and (found := calendar.read(row)) is not None
        }
        self._note_faults(snapshot.faults)

    def events(
        self, changes: db_api.Changes, withdrawn: Collection[int] = ()
    ) -> list[Event]:
        found = [
            *self._of_hosts(changes),
            *self._of_devices(changes),
            *self._of_slots(changes),
            *self._of_groups(changes),
            *self._of_clients(changes),
            *self._of_budgets(changes),
            *self._of_reservations(changes),
        ]
        for record in changes.rows(db_api.SessionRecord):
            if record.id not in withdrawn:
                found.extend(self._of_session(record))
        return found

    def _of_hosts(self, changes: db_api.Changes) -> Iterator[Event]:
        for new in changes.rows(db_api.HostRecord):
            old = self._hosts.get(new.id)
            self._hosts[new.id] = new
            if _without_noise(old) == _without_noise(new):
                continue
            type_ = HOST_UPDATE
            if old is not None and old.up and not new.up:
                type_ = HOST_DOWN
            elif _begins_to_drain(old, new):
                type_ = HOST_DRAIN
            yield Event(type_, _host(new))

    def _of_devices(self, changes: db_api.Changes) -> Iterator[Event]:
        faults = changes.rows(db_api.FaultRecord)
        rows = changes.rows(db_api.DeviceRecord)
        ids = dict.fromkeys([row.id for row in rows] + _devices_in(faults))
        known = {id_: self._device_now(id_) for id_ in ids}
        self._devices.update((row.id, row) for row in rows)
        self._note_faults(faults)
        for id_, old in known.items():
            new = self._device_now(id_)
            if new is None or old == new:
                continue
            type_ = DEVICE_UPDATE
            if not new.healthy and (old is None or old.healthy):
                type_ = DEVICE_FAULT
            elif _begins_to_drain(old, new):
                type_ = DEVICE_DRAIN
            yield Event(type_, _device(new, self._hosts[new.host_id]))

    def _note_faults(self, faults: Iterable[db_api.FaultRecord]) -> None:
        for fault in faults:
            if fault.level == health.Level.DEVICE.value:
                if fault.active:
                    self._faults[fault.target_id] = fault.reason
                else:
                    self._faults.pop(fault.target_id, None)

    def _device_now(self, device_id: int) -> db_api.DeviceRecord | None:
        """Return a device's row, marked unhealthy if it is out of service."""
        row = self._devices.get(device_id)
        reason = self._faults.get(device_id)
        if row is None or reason is None:
            return row
        return dataclasses.replace(
            row, healthy=False, fault_reason=row.fault_reason or reason
        )

    def _of_slots(self, changes: db_api.Changes) -> Iterator[Event]:
        for new in changes.rows(db_api.SlotRecord):
            old = self._slots.get(new.id)
            self._slots[new.id] = new
            if _without_noise(old) == _without_noise(new):
                continue
            broken = new.faulty and (old is None or not old.faulty)
            yield Event(SLOT_FAULT if broken else SLOT_UPDATE, self._slot(new))

    def _of_groups(self, changes: db_api.Changes) -> Iterator[Event]:
        for new in changes.rows(db_api.GroupRecord):
            old = self._groups.get(new.id)
            self._groups[new.id] = new
            if old is None:
                yield _group(GROUP_CREATE, new)
            elif _without_noise(old) != _without_noise(new):
                yield _group(GROUP_UPDATE, new)
            if old is not None and group.is_reached(new) > group.is_reached(
                old
            ):
                yield _group(GROUP_GOAL_REACH, new)
        for gone in changes.deleted(db_api.GroupRecord):
            if self._groups.pop(gone.id, None) is not None:
                yield _group(GROUP_DELETE, gone)

    def _of_clients(self, changes: db_api.Changes) -> Iterator[Event]:
        for new in changes.rows(db_api.GroupClientRecord):
            if new.id not in self._clients:
                self._clients.add(new.id)
                yield _client(GROUP_CLIENT_ATTACH, new)
        for gone in changes.deleted(db_api.GroupClientRecord):
            if gone.id in self._clients:
                self._clients.remove(gone.id)
                has_ended = gone.state == states.CLIENT_ENDED
                yield _client(
                    GROUP_CLIENT_END if has_ended else GROUP_CLIENT_REVOKE,
                    gone,
                )

    def _of_budgets(self, changes: db_api.Changes) -> Iterator[Event]:
        for new in changes.rows(db_api.QuotaRecord):
            if new.resource != stored.STATE:
                continue
            if self._budgets.get(new.project_id) != new.hard_limit:
                self._budgets[new.project_id] = new.hard_limit
                payload = notification.BudgetPayload(
                    project_id=new.project_id,
                    state=stored.read_state(new.hard_limit),
                )
                yield Event(BUDGET_UPDATE, payload)

    def _of_reservations(self, changes: db_api.Changes) -> Iterator[Event]:
        for row in changes.rows(db_api.ReservationRecord):
            if not calendar.is_of_calendar(row):
                continue
            old = self._reservations.pop(row.device_id, None)
            new = calendar.read(row)
            if old is not None and (new is None or new.id != old.id):
                if not old.is_over:
                    yield _reservation(RESERVATION_DELETE, old)
                old = None
            if new is None:
                continue
            self._reservations[row.device_id] = new
            if old is None or old.state != new.state:
                yield _reservation(_OF_RESERVATIONS[new.state], new)
            elif old.wanted != new.wanted:
                yield _reservation(RESERVATION_UPDATE, new)

    def _of_session(self, new: db_api.SessionRecord) -> Iterator[Event]:
        last_state = self._states.get(new.id) or self._ended.get(new.id)
        if last_state == new.state:
            return
        if last_state is None and new.state != states.QUEUED:
            # A commit that covers several states contains only the last one.
            yield Event(SESSION_QUEUED, self._session(_as_queued(new)))
        if new.state in states.TERMINAL:
            self._states.pop(new.id, None)
            # The row is written again when the slot is released.
            self._ended[new.id] = new.state
            while len(self._ended) > _MAX_ENDED:
                self._ended.popitem(last=False)
        else:
            self._ended.pop(new.id, None)
            self._states[new.id] = new.state
        yield Event(_STEPS.get(new.state, SESSION_END), self._session(new))

    def _slot(self, slot: db_api.SlotRecord) -> notification.SlotPayload:
        return notification.SlotPayload(
            **self._place(slot), **_slot_members(slot)
        )

    def _place(self, slot: db_api.SlotRecord) -> dict[str, Any]:
        device = self._devices[slot.device_id]
        board = _board(device, self._hosts[device.host_id])
        slot_id = _named(board["device_id"], str(slot.number))
        return {"slot_id": slot_id, "slot": slot.number, **board}

    def _session(
        self, record: db_api.SessionRecord
    ) -> notification.SessionPayload:
        host = self._hosts.get(record.host_id or 0)
        slot = self._slots.get(record.slot_id or 0)
        return notification.SessionPayload(
            **_session_members(record),
            host_uuid=host.uuid if host else None,
            place=notification.PlacePayload(**self._place(slot))
            if slot
            else None,
        )


def _devices_in(faults: Iterable[db_api.FaultRecord]) -> list[int]:
    device = health.Level.DEVICE.value
    return [fault.target_id for fault in faults if fault.level == device]


def _without_noise(
    record: db_api.HostRecord | db_api.SlotRecord | db_api.GroupRecord | None,
) -> db_api.HostRecord | db_api.SlotRecord | db_api.GroupRecord | None:
    """Clear the columns whose changes cause no notification."""
    if isinstance(record, db_api.HostRecord):
        return dataclasses.replace(
            record, last_report_at=None, compute_state=""
        )
    if isinstance(record, db_api.SlotRecord):
        return dataclasses.replace(record, programmed=None)
    if isinstance(record, db_api.GroupRecord):
        return dataclasses.replace(record, actions_done=0)
    return None


def _begins_to_drain(
    old: db_api.HostRecord | db_api.DeviceRecord | None,
    new: db_api.HostRecord | db_api.DeviceRecord,
) -> bool:
    draining = model.AdminState.DRAINING.value
    return new.admin_state == draining and (
        old is None or old.admin_state != draining
    )


def _as_queued(record: db_api.SessionRecord) -> db_api.SessionRecord:
    return dataclasses.replace(
        record,
        state=states.QUEUED,
        reason="",
        message="",
        generation=0,
        slot_id=None,
        local=None,
        ready_at=None,
        started_at=None,
        finished_at=None,
        input_bytes=0,
        output_bytes=0,
    )


def _host(host: db_api.HostRecord) -> notification.HostPayload:
    return notification.HostPayload(
        host_uuid=host.uuid, host_name=host.name, **_host_members(host)
    )


def _device(
    device: db_api.DeviceRecord, host: db_api.HostRecord
) -> notification.DevicePayload:
    return notification.DevicePayload(
        **_board(device, host), **_device_members(device)
    )


def _board(
    device: db_api.DeviceRecord, host: db_api.HostRecord
) -> dict[str, Any]:
    return {
        "device_id": _named(host.uuid, device.name),
        "device": device.name,
        "host_uuid": host.uuid,
        "host_name": host.name,
    }


def _group(type_: str, record: db_api.GroupRecord) -> Event:
    payload = notification.GroupPayload(**_group_members(record))
    return Event(type_, payload)


def _client(type_: str, record: db_api.GroupClientRecord) -> Event:
    payload = notification.GroupClientPayload(**_client_members(record))
    return Event(type_, payload)


def _reservation(type_: str, found: calendar.Reservation) -> Event:
    return Event(
        type_,
        notification.ReservationPayload(
            reservation_id=found.id,
            project_id=found.project_id,
            name=found.name,
            accelerator=found.accelerator,
            slots=found.slots,
            start_at=_text(found.start_s) or "",
            end_at=_text(found.end_s) or "",
            state=found.state,
            working_slots=found.working,
        ),
    )


def _named(parent: str, name: str) -> str:
    """Derive an identifier in the same way as the REST API."""
    return str(uuid.uuid5(uuid.UUID(parent), name))


def _text(time_s: float | None) -> str | None:
    if time_s is None:
        return None
    moment = datetime.datetime.fromtimestamp(time_s, datetime.UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
