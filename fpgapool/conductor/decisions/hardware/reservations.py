# SPDX-License-Identifier: Apache-2.0
"""Reservations of slots for instances."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool.common import exception
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.core import events
from fpgapool.db import api as db_api
from fpgapool.vocabulary import shapes

LOG = logging.getLogger(__name__)

# The length of the database columns, which hold UUIDs.
_MAX_ID_LENGTH = 36

#: The shape of an operator's request.
REQUEST = shapes.Members(
    {
        "host_uuid": shapes.text(),
        "device": shapes.text(),
        "slots": shapes.integer(0),
    }
)


def check(
    wanted: inputs.SetReservable, device: registry.DeviceEntry | None
) -> registry.DeviceEntry:
    """Check that instances can reserve this many slots; return the device.

    :raises FpgapoolException: if the device does not exist, has too few slots,
        or has too many reservations.
    """
    if device is None:
        raise exception.DeviceNotFound(
            device=wanted.device, host_uuid=wanted.host_uuid
        )
    name = f"{device.host.name}/{device.name}"
    if wanted.slots > len(device.slots):
        raise exception.InvalidRequest(
            reason=f"device {name} has {len(device.slots)} slots, so"
            f" {wanted.slots} cannot be reserved"
        )
    if wanted.slots < device.reserved_slots:
        raise exception.FewerThanReserved(
            reserved=device.reserved_slots, device=name
        )
    return device


def restore(
    pool: registry.Registry, rows: list[db_api.ReservationRecord]
) -> None:
    """Load the reservations of the known devices."""
    for row in rows:
        # Those by calendar have no device.
        device = pool.devices.get(row.device_id)
        if device is not None:
            device.reservations = dict(row.instances)


def replace(
    pool: registry.Registry, by_device: Mapping[str, Mapping[str, int]]
) -> list[db_api.Record]:
    """Replace all reservations."""
    wanted = {}
    for device_uuid, counts in by_device.items():
        device = pool.find_device(device_uuid)
        if device is None:
            LOG.warning(
                "Placement has reservations for unknown device %s",
                device_uuid,
            )
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


def core_event(pool: registry.Registry) -> events.ReservationsChanged:
    return events.ReservationsChanged(
        tuple(
            (device.id, tuple(sorted(device.reservations.items())))
            for device in pool.devices.values()
            if device.reservations
        )
    )


def core_events(pool: registry.Registry) -> Iterator[events.Event]:
    """Yield the events with which a new leader's core starts."""
    for device in pool.devices.values():
        if device.reservable_slots:
            yield events.ReservableSlotsChanged(
                device.id, device.reservable_slots
            )
    yield events.ReservationsChanged(
        core_event(pool).by_device,
        tuple(
            (slot.id, slot.reserved_for)
            for slot in pool.slots.values()
            if slot.reserved_for is not None
        ),
    )
