# SPDX-License-Identifier: Apache-2.0

"""Permanent identifiers of hardware."""

import functools
import uuid

# Each reading of the inventory needs them all, and they take most of its time.
_MOST_KEPT = 100_000


@functools.lru_cache(_MOST_KEPT)
def device_id(host_uuid: str, device_name: str) -> str:
    """Return the identifier of a device, in the API and in Placement."""
    return str(uuid.uuid5(uuid.UUID(host_uuid), device_name))


@functools.lru_cache(_MOST_KEPT)
def slot_id(of_device_id: str, number: int) -> str:
    """Return the identifier of a slot in the API."""
    return str(uuid.uuid5(uuid.UUID(of_device_id), str(number)))


@functools.lru_cache(_MOST_KEPT)
def host_hash(host_uuid: str, reader: str) -> str:
    """Return the UUID that stands for a host before those who may not know it.

    :param reader: whoever sees it, such as a project. Others see another UUID.
    """
    return str(uuid.uuid5(uuid.UUID(host_uuid), reader))
