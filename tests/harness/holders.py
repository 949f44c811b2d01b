# SPDX-License-Identifier: Apache-2.0

"""The conductor and the core agree on the holders of slots."""

from fpgapool.conductor.decisions import pool as pools
from fpgapool.core import model


def check(pool: pools.Pool) -> None:
    """Check that each slot has one holder, which the core has made.

    A session may keep a slot for which the core has no holder any more, until
    the agent shows that it is free.

    :raises AssertionError: if anything is wrong.
    """
    # assignments() copies these, which takes long.
    assigned = pool.core._slots.assignments
    tests = {
        slot_id: test.generation
        for slot_id, test in pool.probation.tests.items()
    }
    tested = {
        slot_id: hold.generation
        for slot_id, hold in assigned.items()
        if hold.record is None
    }
    assert tests == tested, f"slots of tests: {tests}, in the core {tested}"
    assert not tests.keys() & pool.holds.keys(), f"tests and sessions: {tests}"
    for slot_id in assigned.keys() - tests.keys():
        hold = pool.holds[slot_id]
        leaving = pool.core.leaving(slot_id)
        if leaving is not None:
            assert hold.core is leaving, f"{hold} leaves slot {slot_id}"
            assert hold.successor is not None, f"{hold} has no successor"
            hold = hold.successor
            assert hold.phase is model.Phase.PREPARING, f"{hold} is too early"
        else:
            assert hold.successor is None, f"{hold} does not leave"
        assert hold.core is assigned[slot_id], assigned
