# SPDX-License-Identifier: Apache-2.0

"""A host as the API describes it."""

from __future__ import annotations

from typing import Any

from fpgapool.vocabulary import states


def host(
    *programmed: str | None,
    name: str = "node1",
    up: bool = True,
    healthy: bool = True,
    faulty: tuple[int, ...] = (),
) -> dict[str, Any]:
    """Return a host with one board, as the pool's summary has it."""
    slots = [
        {
            "slot": number,
            "state": states.FAULTY if number in faulty else states.SLOT_IDLE,
            "programmed": one,
        }
        for number, one in enumerate(programmed)
    ]
    device = {"name": "board1", "healthy": healthy, "slots": slots}
    return {"name": name, "up": up, "devices": [device]}
