# SPDX-License-Identifier: Apache-2.0
"""Slots that instances have reserved, as the operator and Nova say."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from oslo_log import log as logging

from fpgapool.common import exception
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import registry
from fpgapool.core import events
from fpgapool.db import api as db_api

LOG = logging.getLogger(__name__)

# As many characters as the columns take: those of a UUID.
_MAX_ID_LENGTH = 36


def checked(host_uuid: Any, device: Any, slots: Any) -> inputs.SetReservable:
    """Return what an operator wants, if it makes sense.

    :raises InvalidRequest: if not.
    """
    if not isinstance(host_uuid, str) or not isinstance(device, str):
        raise exception.InvalidRequest(
            reason="host_uuid and device must be text"
        )
    if type(slots) is not int or slots < 0:
        raise exception.InvalidRequest(
            reason=f"slots must be a whole number from 0 on, not {slots!r:.80}"
        )
    return inputs.SetReservable(
        host_uuid=host_uuid,
        device=device,
        slots=slots,
        future=concurrent.futures.Future(),
    )


def refusal(
    wish: inputs.SetReservable, device: registry.DeviceEntry | None
) -> exception.FpgapoolException | None:
    """Return why so many slots of a device cannot be reservable, if so."""
    if device is None:
        return exception.DeviceNotFound(
            device=wish.device, host_uuid=wish.host_uuid
        )
    if wish.slots > len(device.slots):
        return exception.InvalidRequest(
            reason=f"device {device.name} has {len(device.slots)} slots only"
        )
    if wish.slots < device.reserved_slots:
        return exception.FewerThanReserved(
            reserved=device.reserved_slots, device=device.name
        )
    return None


def restore(
    pool: registry.Registry, rows: list[db_api.ReservationRecord]
) -> None:
    """Take over what the database holds of devices that are there."""
    for row in rows:
        device = pool.devices.get(row.device_id)
        if device is not None:
            device.reservations = dict(row.instances)


def take(
    pool: registry.Registry, by_device: Mapping[str, Mapping[str, int]]
) -> list[db_api.Record]:
    """Take over all reservations that there are.

    :param by_device: see :class:`.inputs.Reservations`.
    :returns: the rows to write.
    """
    wanted = {}
    for device_uuid, counts in by_device.items():
        device = pool.find_device(device_uuid)
        if device is None:
            LOG.warning("Slots of a device that is not here are reserved")
            continue
        wanted[device.id] = {
            instance_id: count
            for instance_id, count in counts.items()
            if count > 0 and len(instance_id) <= _MAX_ID_LENGTH
        }
    rows: list[db_api.Record] = []
    for device in pool.devices.values():
        reservations = wanted.get(device.id, {})
        if device.reservations != reservations:
            device.reservations = reservations
            rows.append(
                db_api.ReservationRecord(
                    device_id=device.id, instances=reservations
                )
            )
    return rows


def news(pool: registry.Registry) -> events.ReservationsChanged:
    """Return what the core is told of all reservations."""
    return events.ReservationsChanged(
        tuple(
            (device.id, tuple(sorted(device.reservations.items())))
            for device in pool.devices.values()
            if device.reservations
        )
    )


def reminders(pool: registry.Registry) -> Iterator[events.Event]:
    """Yield what the core must hear after a restart."""
    for device in pool.devices.values():
        if device.reservable_slots:
            yield events.ReservableSlotsChanged(
                device.id, device.reservable_slots
            )
    yield events.ReservationsChanged(
        news(pool).by_device,
        tuple(
            (slot.id, slot.reserved_for)
            for slot in pool.slots.values()
            if slot.reserved_for is not None
        ),
    )
