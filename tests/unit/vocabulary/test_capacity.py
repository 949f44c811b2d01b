# SPDX-License-Identifier: Apache-2.0

"""Numbers of slots for an accelerator."""

from __future__ import annotations

from fpgapool.vocabulary import capacity


def _host(*slots: tuple[str, str], up: bool = True, healthy: bool = True):
    return {
        "up": up,
        "devices": [
            {
                "healthy": healthy,
                "slots": [
                    {"shape": shape, "state": state} for shape, state in slots
                ],
            }
        ],
    }


def test_slots_that_fit_and_are_free() -> None:
    slots = capacity.of_hosts(
        [
            _host(("a", "idle"), ("a", "active"), ("b", "idle")),
            _host(("a", "idle"), up=False),
            _host(("a", "idle"), healthy=False),
        ]
    )

    def counted(*shapes: str) -> dict[str, int]:
        return capacity.of({"shapes": shapes}, slots)

    assert counted("a") == {"slots": 4, "free_slots": 1}
    assert counted() == {"slots": 5, "free_slots": 2}
    assert counted("c") == {"slots": 0, "free_slots": 0}
