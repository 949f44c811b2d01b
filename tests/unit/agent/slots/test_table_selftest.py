# SPDX-License-Identifier: Apache-2.0

"""The slot table of an agent whose slots are tested."""

from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.agent import factories
from tests.unit.agent.slots.steps import EPOCH
from tests.unit.agent.slots.steps import KEY
from tests.unit.agent.slots.steps import ready
from tests.unit.agent.slots.steps import report
from tests.unit.agent.slots.steps import to_worker
from tests.unit.agent.slots.steps import up


def selftest_request(generation=8):
    return factories.assign_request(generation, self_test=True)


def test_a_test_goes_to_the_worker_like_an_assignment():
    tab = factories.make_table()
    up(tab)
    effects = tab.assign(EPOCH, selftest_request(), 0.0)
    assert to_worker(effects) == [("assign", 8)]
    assert effects[1].members["self_test"] is True
    assert report(tab).state == "preparing"


def test_a_slot_in_use_is_not_tested():
    tab = ready()
    assert to_worker(tab.assign(EPOCH, selftest_request(), 0.0)) == []
    assert (report(tab).state, report(tab).generation) == ("ready", 7)


def test_only_a_test_is_given_to_a_slot_that_cannot_be_cleaned():
    tab = factories.make_table()
    tab.worker_connected(KEY)
    tab.worker_status(KEY, factories.status("faulty"), 0.0)
    assert to_worker(tab.assign(EPOCH, factories.assign_request(7), 0.0)) == []
    assert report(tab).last_result.code == codes.SLOT_FAULTY
    assert to_worker(tab.assign(EPOCH, selftest_request(), 0.0)) == [
        ("assign", 8)
    ]


def test_a_slot_without_a_worker_is_not_tested():
    tab = factories.make_table()
    tab.worker_unstartable(KEY, "no memory", 0.0)
    assert to_worker(tab.assign(EPOCH, selftest_request(), 0.0)) == []
    result = report(tab).last_result
    assert (result.state, result.code, result.message) == (
        states.PREPARE_FAILED,
        codes.SLOT_FAULTY,
        "no memory",
    )
