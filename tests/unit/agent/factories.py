# SPDX-License-Identifier: Apache-2.0

"""Payloads for tests, with everything irrelevant defaulted."""

from __future__ import annotations

from fpgapool import objects
from fpgapool.agent.slots import slot as slots
from fpgapool.agent.slots import table
from fpgapool.drivers import base as drivers

HOST = "7f000000-0000-4000-8000-000000000001"
PROJECT = "project-a"


def device(name: str = "board0", slots: int = 2) -> drivers.DeviceInfo:
    return drivers.DeviceInfo(
        name=name,
        model="emulated",
        dma_bytes_per_s=2.1e9,
        programming_time_s=0.0,
        slots=tuple(
            drivers.SlotInfo(number, "medium", None) for number in range(slots)
        ),
    )


def make_table(
    slots: int = 2, data_address: str | None = "192.0.2.7"
) -> table.SlotTable:
    return table.SlotTable(
        table.HostFacts(HOST, "data", data_address), [device(slots=slots)]
    )


def assign_request(
    generation: int,
    slot: int = 0,
    session_id: str | None = None,
    **changes: object,
) -> objects.AssignRequest:
    members = {
        "host_uuid": HOST,
        "device": "board0",
        "slot": slot,
        "session_id": session_id or f"session-{generation}",
        "generation": generation,
        "project_id": PROJECT,
        "accelerator": "copy",
        "bitstream": "builtin:copy",
        "connect_timeout_s": 30.0,
        "resume_grace_s": 10.0,
        "claimed_bytes": 1000,
        "local": True,
        **changes,
    }
    return objects.AssignRequest(**members)


def status(
    state: str = "idle",
    generation: int | None = None,
    seen_generation: int | None = None,
    **changes: object,
) -> slots.WorkerStatus:
    members = {
        "state": state,
        "session_id": None if generation is None else f"session-{generation}",
        "generation": generation,
        "seen_generation": (
            (generation or 0) if seen_generation is None else seen_generation
        ),
        "project_id": None if generation is None else PROJECT,
        "programmed": None,
        "input_bytes": 0,
        "output_bytes": 0,
        "last_result": None,
        "data_port": 4711,
        **changes,
    }
    return slots.WorkerStatus(**members)


def result(
    generation: int, state: str = "CLOSED", code: str = "OK"
) -> objects.SessionResult:
    return objects.SessionResult(
        session_id=f"session-{generation}",
        generation=generation,
        state=state,
        code=code,
        finished_at=1.0,
    )


def view(
    request_id: str = "r1",
    state: str = "QUEUED",
    revision: int = 1,
    **changes: object,
) -> objects.SessionView:
    members = {
        "session_id": f"session-of-{request_id}",
        "request_id": request_id,
        "project_id": PROJECT,
        "state": state,
        "accelerator": "copy",
        "claimed_bytes": 1000,
        "revision": revision,
        **changes,
    }
    return objects.SessionView(**members)


def open_request(request_id: str = "r1") -> objects.OpenRequest:
    return objects.OpenRequest(
        request_id=request_id,
        project_id=PROJECT,
        user_id="1000",
        host_uuid=HOST,
        accelerator="copy",
        claimed_bytes=1000,
    )
