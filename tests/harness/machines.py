# SPDX-License-Identifier: Apache-2.0

"""What always holds of a worker's state machine."""

from fpgapool.agent.worker import state
from fpgapool.vocabulary import states


def check(machine: state.Machine) -> None:
    """Check it.

    :raises AssertionError: if it does not hold.
    """
    order, ending = machine.order, machine._ending
    free = machine.state in (states.SLOT_IDLE, states.SLOT_FAULTY)
    assert free == (order is None), "a holder exactly if held"
    assert not machine._clearing or ending is not None, "ends why"
    assert (
        ending is None
        or machine._clearing
        or machine.state == states.SLOT_PREPARING
    ), "only programming delays an end"
    if order is not None:
        assert order.generation == machine.seen_generation, "the newest"
        assert order.project_id == machine.last_project_id, (
            "one project per process"
        )
