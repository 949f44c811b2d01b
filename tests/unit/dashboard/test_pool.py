# SPDX-License-Identifier: Apache-2.0

"""Numbers of slots, and limits."""

from __future__ import annotations

import types

from fpgapool.vocabulary import accounting
from fpgapool.vocabulary import states
from fpgapool_dashboard import pool

SLOTS = {
    "small": {states.SLOT_IDLE: 3, states.SLOT_ACTIVE: 2, states.DOWN: 1},
    "large": {states.SLOT_IDLE: 1, states.SLOT_READY: 4, states.FAULTY: 2},
}


def test_each_state_counts_once() -> None:
    slots = {"any": dict.fromkeys(states.SHOWN_SLOT_STATES, 1)}
    (found,) = pool.by_shape(slots)
    assert (found.free, found.in_use, found.out_of_service) == (1, 4, 3)
    assert found.total == len(states.SHOWN_SLOT_STATES)


def test_shapes_are_in_order() -> None:
    assert pool.by_shape(SLOTS) == [
        pool.Slots("large", free=1, in_use=4, out_of_service=2),
        pool.Slots("small", free=3, in_use=2, out_of_service=1),
    ]


def test_accelerator_counts_the_slots_that_it_fits() -> None:
    fits_all, fits_one, fits_none = (
        types.SimpleNamespace(name=name, shapes=shapes)
        for name, shapes in (
            ("aes", []),
            ("fft", ["large", "unknown"]),
            ("sha", ["unknown"]),
        )
    )
    found = pool.by_accelerator([fits_all, fits_one, fits_none], SLOTS)
    assert [(one.id, one.free, one.total) for one in found] == [
        ("aes", 4, 13),
        ("fft", 1, 7),
        ("sha", 0, 0),
    ]
    assert found[0].about is fits_all


def test_limits() -> None:
    quota = types.SimpleNamespace(
        **{
            **dict.fromkeys(accounting.QUOTAS),
            "sessions": {"limit": 4, "in_use": 1, "source": "project"},
            "queued": {"limit": -1, "in_use": 0, "source": "default"},
            "groups": {"limit": None, "in_use": 0, "source": "keystone"},
        }
    )
    found = {one.id: one for one in pool.limits(quota)}
    assert list(found) == ["sessions", "queued", "groups"]
    assert found["sessions"] == pool.Limit("sessions", 1, 4, "project")
    assert [one.is_unlimited for one in found.values()] == [False, True, False]
