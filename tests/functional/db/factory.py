# SPDX-License-Identifier: Apache-2.0

"""Rows for tests."""

import uuid
from typing import Any

from fpgapool.db import api


def session(id_: int, **members: Any) -> api.SessionRecord:
    """Return a waiting session; its ids follow from the given one."""
    values: dict[str, Any] = {
        "session_id": str(uuid.UUID(int=id_)),
        "request_id": f"request-{id_}",
        "project_id": "p1",
        "user_id": "u1",
        "host_id": None,
        "accelerator": "aes",
        "claimed_bytes": 10_000_000,
        "state": "QUEUED",
        "connect_timeout_s": 30.0,
        "resume_grace_s": 10.0,
        "queued_at": 1.7e9 + id_ / 1000,
    }
    return api.SessionRecord(id=id_, **{**values, **members})


def ended(id_: int, finished_at: float, **members: Any) -> api.SessionRecord:
    """Return a session that has ended."""
    return session(id_, state="CLOSED", finished_at=finished_at, **members)


#: An instance that has reserved the second slot of :func:`hardware`.
VM = str(uuid.UUID(int=77))


def hardware() -> list[api.Record]:
    """Return a host with one board of two slots; all have the id 1 or 2."""
    return [
        api.HostRecord(
            id=1,
            uuid=str(uuid.UUID(int=1)),
            name="compute1",
            nic_bytes_per_s=1.25e9,
            up=True,
            last_report_at=1.7e9 + 0.123456,
            compute_state=api.ComputeState.KNOWN.value,
        ),
        api.DeviceRecord(
            id=1,
            host_id=1,
            name="board0",
            model="emulated",
            dma_bytes_per_s=2.1e9,
            reservable_slots=1,
        ),
        api.SlotRecord(
            id=1,
            device_id=1,
            number=0,
            shape="medium",
            programmed="aes",
            programming_time_s=0.05,
        ),
        api.SlotRecord(
            id=2, device_id=1, number=1, shape="medium", reserved_for=VM
        ),
    ]


def assignment(slot_id: int, holder_id: int, **members: Any) -> api.Record:
    """Return an assignment of a slot to a session."""
    values: dict[str, Any] = {
        "holder_kind": "session",
        "accelerator": "aes",
        "generation": (1 << 32) + 1,
        "phase": "PREPARING",
        "local": True,
        "assigned_at": 1.7e9,
    }
    return api.AssignmentRecord(
        slot_id=slot_id, holder_id=holder_id, **{**values, **members}
    )
