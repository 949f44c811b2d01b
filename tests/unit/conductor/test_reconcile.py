# SPDX-License-Identifier: Apache-2.0

"""The findings about a slot, for each phase and each kind of result."""

import types

import pytest

from fpgapool import objects
from fpgapool.conductor.decisions.assignments import reconcile
from fpgapool.core import model
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states


def finding(
    phase: model.Phase, result: str, code: str, revoked: str = ""
) -> reconcile.Finding:
    hold = types.SimpleNamespace(
        generation=7, phase=phase, revoked=revoked, is_unprepared=False
    )
    line = objects.SlotReport(
        device="board0",
        slot=0,
        shape="",
        programmed=None,
        state=states.SLOT_IDLE,
        session_id=None,
        generation=None,
        seen_generation=7,
        last_result=objects.SessionResult(
            session_id="s",
            generation=7,
            state=result,
            code=code,
            finished_at=0.0,
        ),
    )
    return reconcile.compare(hold, line)


@pytest.mark.parametrize("phase", list(model.Phase))
@pytest.mark.parametrize(
    ("result", "code"),
    [
        (states.PREPARE_FAILED, codes.WORKER_DIED),
        (states.PREPARE_FAILED, codes.PROGRAM_FAILED),
        (states.CANCELLED, codes.PREPARE_TIMEOUT),
        (states.CANCELLED, codes.SUPERSEDED),
    ],
)
def test_a_connected_holders_slot_has_been_prepared(phase, result, code):
    failed = finding(phase, result, code) is reconcile.Finding.PREPARE_FAILED
    assert failed == (phase in (model.Phase.PREPARING, model.Phase.READY))
    # The order to leave may have caused it.
    assert finding(phase, result, code, "DRAINED") is (
        reconcile.Finding.FINISHED
    )


@pytest.mark.parametrize("phase", list(model.Phase))
@pytest.mark.parametrize(
    "result", sorted(states.RESULTS - {states.PREPARE_FAILED})
)
def test_other_results_end_every_holder(phase, result):
    assert finding(phase, result, codes.OK) is reconcile.Finding.FINISHED
