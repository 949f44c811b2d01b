# SPDX-License-Identifier: Apache-2.0

"""The slot table while files of bitstreams come, or do not."""

import pytest

from fpgapool import objects
from fpgapool.agent.slots import orders
from tests.unit.agent import factories

KEY = ("board0", 0)
EPOCH = 5
REFERENCE = objects.BitstreamRef(
    bitstream_id="7f000000-0000-4000-8000-00000000000b",
    checksum_sha256="ab" * 32,
    size_bytes=100,
    format="declaration",
)


def request(generation=7):
    return factories.assign_request(
        generation,
        accelerator="mine@project-a",
        bitstream=f"bitstream:{REFERENCE.bitstream_id}",
        bitstream_ref=REFERENCE,
    )


def result(generation=7, code="BITSTREAM_DAMAGED"):
    return objects.SessionResult(
        session_id=f"session-{generation}",
        generation=generation,
        state="PREPARE_FAILED",
        code=code,
        finished_at=1.0,
    )


def damaged(generation=7):
    return factories.status(
        "idle",
        seen_generation=generation,
        last_result=result(generation),
    )


def line(tab):
    return tab.device_reports()[0].slots[0]


def sent(effects):
    return [one for one in effects if isinstance(one, orders.ToWorker)]


def fetches(effects):
    return [one for one in effects if isinstance(one, orders.Fetch)]


@pytest.fixture
def tab():
    made = factories.make_table()
    made.worker_connected(KEY)
    made.worker_status(KEY, factories.status(), 0.0)
    return made


def test_a_file_is_fetched_before_the_worker_hears(tab):
    effects = tab.assign(EPOCH, request(), 0.0)
    assert fetches(effects) == [orders.Fetch(KEY, 7, REFERENCE)]
    assert not sent(effects)
    assert line(tab).state == "preparing"
    assert not sent(tab.worker_status(KEY, factories.status(), 0.0))
    (order,) = sent(tab.bitstream_ready(KEY, 7, "/cache/ab"))
    assert order.operation == "assign"
    assert order.members["bitstream_ref"]["path"] == "/cache/ab"
    assert order.members["bitstream_ref"]["checksum_sha256"] == "ab" * 32


def test_a_repeated_assign_fetches_nothing_more(tab):
    tab.assign(EPOCH, request(), 0.0)
    assert not fetches(tab.assign(EPOCH, request(), 0.0))


def test_a_file_that_came_is_sent_to_the_next_worker_too(tab):
    tab.assign(EPOCH, request(), 0.0)
    tab.bitstream_ready(KEY, 7, "/cache/ab")
    tab.worker_refused(KEY, 7, "RECYCLE", "", 0.0)
    tab.worker_died(KEY, 0.0)
    tab.worker_connected(KEY)
    (order,) = sent(tab.worker_status(KEY, factories.status(), 0.0))
    assert order.members["bitstream_ref"]["path"] == "/cache/ab"


def test_a_file_that_does_not_come_frees_the_slot(tab):
    tab.assign(EPOCH, request(), 0.0)
    gone = 7, "BITSTREAM_UNAVAILABLE", "404"
    assert tab.bitstream_failed(KEY, *gone, 3.0) == [orders.Changed()]
    last = line(tab).last_result
    assert (last.state, last.code, last.message) == (
        "PREPARE_FAILED",
        "BITSTREAM_UNAVAILABLE",
        "404",
    )
    assert line(tab).state == "idle"
    assert tab.bitstreams_in_use() == frozenset()


def test_a_bitstream_that_is_not_trusted_frees_the_slot(tab):
    tab.assign(EPOCH, request(), 0.0)
    (order,) = sent(tab.bitstream_ready(KEY, 7, "/cache/ab"))
    assert tab.bitstream_failed(
        KEY, order.generation, "BITSTREAM_UNTRUSTED", "no key", 3.0
    ) == [orders.Changed()]
    last = line(tab).last_result
    assert (last.state, last.code, last.message) == (
        "PREPARE_FAILED",
        "BITSTREAM_UNTRUSTED",
        "no key",
    )
    assert line(tab).state == "idle"
    # The worker has heard nothing, and the next order finds the slot free.
    assert not sent(tab.worker_status(KEY, factories.status(), 4.0))
    tab.assign(EPOCH, request(8), 5.0)
    assert sent(tab.bitstream_ready(KEY, 8, "/cache/ab"))


def test_what_comes_too_late_changes_nothing(tab):
    tab.assign(EPOCH, request(7), 0.0)
    tab.release(EPOCH, KEY, "session-7", 7, "CLIENT_GONE", 0.0)
    tab.assign(EPOCH, request(8), 0.0)
    assert tab.bitstream_ready(KEY, 7, "/cache/ab") == []
    assert tab.bitstream_failed(KEY, 7, "X", "late", 0.0) == []
    assert line(tab).generation == 8
    assert sent(tab.bitstream_ready(KEY, 8, "/cache/ab"))


def test_a_damaged_file_is_fetched_again_once(tab):
    tab.assign(EPOCH, request(), 0.0)
    tab.bitstream_ready(KEY, 7, "/cache/ab")
    tab.worker_status(KEY, factories.status("preparing", 7), 0.0)
    effects = tab.worker_status(KEY, damaged(), 1.0)
    assert fetches(effects) == [orders.Fetch(KEY, 7, REFERENCE, again=True)]
    assert line(tab).state == "preparing"
    assert line(tab).last_result is None
    # It goes on saying so until it is told to try again.
    assert not sent(tab.worker_status(KEY, damaged(), 2.0))
    assert len(sent(tab.bitstream_ready(KEY, 7, "/cache/ab"))) == 1
    tab.worker_status(KEY, damaged(), 2.0)
    assert line(tab).state == "preparing"
    tab.worker_status(KEY, factories.status("preparing", 7), 3.0)
    assert not fetches(tab.worker_status(KEY, damaged(), 4.0))
    assert line(tab).last_result.code == "BITSTREAM_DAMAGED"
    assert line(tab).state == "idle"


def test_the_second_try_may_succeed(tab):
    tab.assign(EPOCH, request(), 0.0)
    tab.bitstream_ready(KEY, 7, "/cache/ab")
    tab.worker_status(KEY, factories.status("preparing", 7), 0.0)
    tab.worker_status(KEY, damaged(), 1.0)
    tab.bitstream_ready(KEY, 7, "/cache/ab")
    tab.worker_status(
        KEY,
        factories.status(
            "ready",
            7,
            programmed="mine@project-a",
            bitstream_id=REFERENCE.bitstream_id,
        ),
        2.0,
    )
    assert tab.worker_prepared(KEY, 7, "ab" * 32)
    assert line(tab).state == "ready"
    assert line(tab).bitstream_id == REFERENCE.bitstream_id


def test_the_second_try_may_end_in_another_way_unseen(tab):
    """The connection to the worker was lost meanwhile."""
    tab.assign(EPOCH, request(), 0.0)
    tab.bitstream_ready(KEY, 7, "/cache/ab")
    tab.worker_status(KEY, factories.status("preparing", 7), 0.0)
    tab.worker_status(KEY, damaged(), 1.0)
    tab.bitstream_ready(KEY, 7, "/cache/ab")
    tab.worker_disconnected(KEY)
    tab.worker_connected(KEY)
    other = result(7, "PROGRAM_FAILED")
    tab.worker_status(
        KEY,
        factories.status("idle", seen_generation=7, last_result=other),
        2.0,
    )
    assert line(tab).state == "idle"
    assert line(tab).last_result == other


def test_a_release_ends_the_second_try(tab):
    tab.assign(EPOCH, request(), 0.0)
    tab.bitstream_ready(KEY, 7, "/cache/ab")
    tab.worker_status(KEY, factories.status("preparing", 7), 0.0)
    tab.worker_status(KEY, damaged(), 1.0)
    tab.release(EPOCH, KEY, "session-7", 7, "CLIENT_GONE", 2.0)
    assert line(tab).state == "idle"
    assert line(tab).last_result.state == "CANCELLED"
    assert tab.bitstream_ready(KEY, 7, "/cache/ab") == []


def test_a_released_slot_gets_no_second_try(tab):
    tab.assign(EPOCH, request(), 0.0)
    tab.bitstream_ready(KEY, 7, "/cache/ab")
    tab.worker_status(KEY, factories.status("preparing", 7), 0.0)
    tab.release(EPOCH, KEY, "session-7", 7, "CLIENT_GONE", 2.0)
    assert not fetches(tab.worker_status(KEY, damaged(), 3.0))
    assert line(tab).state == "idle"


def test_a_released_slot_stays_free_whatever_its_worker_repeats(tab):
    tab.assign(EPOCH, request(), 0.0)
    tab.bitstream_ready(KEY, 7, "/cache/ab")
    tab.worker_status(KEY, factories.status("preparing", 7), 0.0)
    tab.release(EPOCH, KEY, "session-7", 7, "CLIENT_GONE", 2.0)
    # It is in use until the worker lets go of it.
    assert tab.bitstreams_in_use() == {"ab" * 32}
    for now in (3.0, 4.0, 5.0):
        assert not fetches(tab.worker_status(KEY, damaged(), now))
        assert line(tab).state == "idle"
        assert line(tab).last_result == result()
        assert tab.bitstreams_in_use() == frozenset()
    # What the slot is given for next has its second try.
    tab.assign(EPOCH, request(8), 6.0)
    tab.bitstream_ready(KEY, 8, "/cache/ab")
    tab.worker_status(KEY, factories.status("preparing", 8), 6.0)
    assert fetches(tab.worker_status(KEY, damaged(8), 7.0))


def test_a_release_that_crosses_the_first_try_ends_it(tab):
    """The worker's word on the assignment comes after the release."""
    tab.assign(EPOCH, request(), 0.0)
    tab.bitstream_ready(KEY, 7, "/cache/ab")
    tab.release(EPOCH, KEY, "session-7", 7, "CLIENT_GONE", 2.0)
    for now in (3.0, 4.0):
        assert not fetches(tab.worker_status(KEY, damaged(), now))
        assert line(tab).state == "idle"


def test_a_slot_that_cannot_be_cleaned_gets_no_second_try(tab):
    tab.assign(EPOCH, request(), 0.0)
    tab.bitstream_ready(KEY, 7, "/cache/ab")
    tab.worker_status(KEY, factories.status("preparing", 7), 0.0)
    faulty = factories.status(
        "faulty", seen_generation=7, last_result=result()
    )
    assert not fetches(tab.worker_status(KEY, faulty, 1.0))
    assert line(tab).state == "faulty"
    assert line(tab).last_result == result()
    # Nor later: the conductor knows the result.
    assert not fetches(tab.worker_status(KEY, damaged(), 2.0))
    assert line(tab).state == "idle"


def test_a_file_is_in_use_as_long_as_its_holder_is(tab):
    tab.assign(EPOCH, request(), 0.0)
    assert tab.bitstreams_in_use() == {"ab" * 32}
    tab.bitstream_ready(KEY, 7, "/cache/ab")
    tab.worker_status(KEY, factories.status("ready", 7), 0.0)
    assert tab.bitstreams_in_use() == {"ab" * 32}
    tab.worker_status(
        KEY,
        factories.status(
            "idle", seen_generation=7, last_result=result(7, "OK")
        ),
        1.0,
    )
    assert tab.bitstreams_in_use() == frozenset()
