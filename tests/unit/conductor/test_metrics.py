# SPDX-License-Identifier: Apache-2.0

"""What the engine counts, and how a conductor tells it."""

import concurrent.futures
import types

import prometheus_client
import pytest
from prometheus_client import registry

from fpgapool import strategies
from fpgapool.common import exception
from fpgapool.common.monitoring import metrics
from fpgapool.conductor import counts
from fpgapool.conductor import metrics as conductor_metrics
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.views import summary
from fpgapool.conductor.runtime import persistence
from fpgapool.conductor.runtime import strategy_loading
from fpgapool.core.queues import sharing
from fpgapool.db import api as db_api
from fpgapool.strategies import shared
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import group_steps
from tests.unit.conductor import world

OPTIONS = {"thresholds_bytes": (5.0, 7.0)}


@pytest.fixture
def pool() -> world.Conductor:
    """Give a pool with two slots."""
    return world.Conductor(world.hosts(a=2), report_timeout_s=5)


def _value(histogram) -> tuple[float, float]:
    buckets, total = histogram.read()
    return buckets[-1][1], total


def _run(pool: world.Conductor, request_id: str, seconds: float) -> None:
    """Let a session that has a slot use it for some time, and close."""
    pool.deliver_all()
    agent = pool.agents["a"]
    session = pool.view(request_id)
    number = session.slot
    pool.feed(agent.prepared(number))
    pool.now += seconds
    pool.end(states.CLOSED, codes.OK, number)


def test_waits_and_services(pool) -> None:
    first, second = pool.open(), pool.open()
    third = pool.open()
    _run(pool, first, 4.0)
    assert pool.view(third).state == states.PREPARING
    assert _value(pool.counts.waits_s) == (3, 4.0)
    assert _value(pool.counts.service_s) == (1, 4.0)
    _run(pool, second, 2.0)
    assert _value(pool.counts.service_s) == (2, 10.0)
    assert pool.counts.opened == 3
    assert pool.counts.ended == {("CLOSED", "OK"): 2}


def test_bytes_count_when_they_are_reported(pool) -> None:
    """The live page shows their growth, so no report may count them again."""
    request_id = pool.open()
    pool.deliver_all()
    agent = pool.agents["a"]
    number = pool.view(request_id).slot
    pool.feed(agent.prepared(number))
    slot = agent.slots[number]
    slot.state = states.SLOT_ACTIVE
    for moved_bytes in (300, 300, 800):
        slot.input_bytes = moved_bytes
        pool.feed(agent.report())
        assert pool.ask.counts()["moved_bytes"] == moved_bytes
    pool.end(states.CLOSED, codes.OK, number)
    known = pool.view(request_id)
    assert pool.counts.moved_bytes == known.input_bytes + known.output_bytes
    numbers = pool.ask.counts()
    assert (numbers["waits"], numbers["waited_s"]) == (1, 0.0)


def test_a_session_that_waits_again_has_waited_once(pool) -> None:
    request_id = pool.open()
    pool.deliver_all()
    pool.now += 3.0
    number = pool.view(request_id).slot
    pool.end(states.PREPARE_FAILED, codes.PROGRAM_FAILED, number)
    assert pool.view(request_id).state == states.PREPARING
    assert _value(pool.counts.waits_s) == (1, 0.0)


def test_refusals_by_code(pool) -> None:
    for _ in range(2):
        pool.open(accelerator="none")
    pool.open(claimed_bytes=0)
    assert pool.counts.refused == {
        "UNKNOWN_ACCELERATOR": 2,
        "INVALID_SIZE": 1,
    }
    assert pool.counts.opened == 0


def _fill_slots(pool: world.Conductor) -> None:
    for _ in range(2):
        pool.open(project_id="p")


def test_lengths_of_queues_follow_every_way_in_and_out(pool) -> None:
    _fill_slots(pool)
    names = [
        pool.open(claimed_bytes=size, project_id=project)
        for size, project in (
            (1000, "p"),
            (1001, "p"),
            (2000, "q"),
            (2001, "r"),
            (9000, "r"),
            (9000, "r"),
        )
    ]
    figures = pool.ask.figures(2, 5)
    assert figures.queued_by_size == (1, 2, 3)
    assert figures.queued_by_project == {"r": 3, "p": 2, "other": 1}
    assert figures.queued_bytes == 24002
    assert figures.sessions == {
        "QUEUED": 6,
        "PREPARING": 2,
        "READY": 0,
        "ACTIVE": 0,
        "DETACHED": 0,
    }
    assert figures.slots == {"preparing": 2}
    assert figures.hosts == {"a": True}
    pool.cancel(names[1])
    # The next leader counts those whom it takes over.
    pool.boot_conductor()
    pool.report("a")
    assert pool.ask.figures(0, 5).queued_by_size == (1, 1, 3)
    assert pool.ask.figures(0, 5).queued_by_project == {"other": 5}


def test_a_corrected_claim_waits_in_the_queue_of_what_it_counts(pool) -> None:
    _fill_slots(pool)
    for _ in range(100):
        pool.engine.pool.overruns.note("liar", "aes", 1e9, 1e12)
    pool.open(claimed_bytes=1000, project_id="liar")
    figures = pool.ask.figures(1, 5)
    assert figures.queued_by_size == (0, 0, 1)
    assert figures.queued_bytes == 1000


def test_slots_of_a_silent_host_are_not_idle(pool) -> None:
    assert pool.ask.figures(1, 1).slots == {"idle": 2}
    pool.memory.registry.hosts["a"].up = False
    figures = pool.ask.figures(1, 5)
    assert figures.slots == {"host_down": 2}
    assert figures.hosts == {"a": False}
    assert set(figures.slots) <= set(summary.SLOT_STATES)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (strategies.wa(OPTIONS, 0), (5.0, 7.0)),
        (strategies.wra(OPTIONS, 0), (5.0, 7.0)),
        (strategies.fifo({}, 0), ()),
        (strategies.era({}, 0), ()),
    ],
)
def test_thresholds_of_strategies(made, expected) -> None:
    assert strategy_loading.thresholds_bytes(made)() == expected
    over = shared.SharedStrategy(made, sharing.ShareOptions())
    assert strategy_loading.thresholds_bytes(over)() == expected


def test_what_need_not_be_durable_is_answered_at_once(pool) -> None:
    found = {}
    for durable in (True, False):
        future = concurrent.futures.Future()
        query = inputs.Query(
            lambda asked: asked.queued_count, durable, future=future
        )
        wanted = pool.engine.process((query,), pool.now)
        for name in ("at_once", "after_commit"):
            if any(
                isinstance(one, effects.Reply) for one in getattr(wanted, name)
            ):
                found[durable] = name
    assert found == {True: "after_commit", False: "at_once"}


class _Database:
    """Is away once."""

    failing = False

    def __init__(self) -> None:
        self.away = True

    def commit(self, epoch, changes, **_names):
        if self.away:
            self.away = False
            raise exception.DatabaseUnavailable(reason="gone")
        return []


def test_transactions_are_counted() -> None:
    counted = counts.Counts()
    delivered = concurrent.futures.Future()
    committer = persistence.GroupCommitter(
        _Database(),
        1,
        deliver=delivered.set_result,
        on_unrecorded=print,
        on_deposed=print,
        on_failure=print,
        counts=counted,
    )
    record = db_api.HostRecord(id=1, uuid="u", name="n", nic_bytes_per_s=1.0)
    changes = db_api.Changes.of([record], released_slots=[4, 5])
    assert changes.row_count == 3
    committer.put(
        effects.Effects(changes, after_commit=[effects.AskReport("u")])
    )
    committer.start()
    delivered.result(30)
    committer.stop()
    assert (counted.commit_failures, counted.commit_rows) == (1, 3)
    assert _value(counted.commits_s)[0] == 1


def _told(conductor) -> str:
    collected = registry.CollectorRegistry()
    collected.register(
        metrics.Collector(
            conductor_metrics.DEFINITIONS,
            [lambda page: conductor_metrics.fill(conductor, 1, 1, page)],
        )
    )
    return prometheus_client.generate_latest(collected).decode()


def _term(ask):
    return types.SimpleNamespace(
        epoch=7,
        pump=types.SimpleNamespace(backlog=4, ask=ask),
        committer=types.SimpleNamespace(backlog=0, failing=True),
    )


def test_a_leader_tells_what_its_engine_knows(pool) -> None:
    _fill_slots(pool)
    pool.open(project_id="q")
    agent = pool.agents["a"]
    agent.sent_at = pool.now - 2
    pool.feed(agent.report())
    pool.counts.taken_back["p", codes.PREEMPTED] = 3
    pool.counts.taken_back["q", codes.DRAINED] = 2
    term = _term(lambda question, *_, durable: question(pool.ask))
    text = _told(types.SimpleNamespace(counts=pool.counts, term=term))
    taken = "fpgapool_conductor_slots_taken_back_total"
    for line in (
        f'{taken}{{project="p",reason="PREEMPTED"}} 3.0',
        f'{taken}{{project="other",reason="DRAINED"}} 2.0',
        "fpgapool_conductor_leading 1.0",
        "fpgapool_conductor_epoch 7.0",
        "fpgapool_conductor_inputs_backlog 4.0",
        "fpgapool_conductor_database_failing 1.0",
        "fpgapool_conductor_state_known 1.0",
        'fpgapool_conductor_project_queued_sessions{project="q"} 1.0',
        'fpgapool_conductor_queue_sessions{queue="1"} 1.0',
        'fpgapool_conductor_queue_sessions{queue="3"} 0.0',
        'fpgapool_conductor_slots{state="preparing"} 2.0',
        'fpgapool_conductor_slots{state="faulty"} 0.0',
        'fpgapool_conductor_host_up{host="a"} 1.0',
        'fpgapool_conductor_host_clock_behind_seconds{host="a"} 2.0',
        "fpgapool_conductor_sessions_opened_total 3.0",
    ):
        assert f"\n{line}\n" in text


def test_a_leader_tells_of_groups(pool) -> None:
    for number in (1, 2):
        new = group_steps.new(group_id=f"g{number}", size=number)
        assert not group_steps.change(pool, new)
    pool.settle()
    pool.agents["a"].desks["g1"].count(
        "c", ended=5, arrived=7, busy_s=2.5, waiting=2, running=0
    )
    pool.report("a")
    term = _term(lambda question, *_, durable: question(pool.ask))
    text = _told(types.SimpleNamespace(counts=pool.counts, term=term))
    name = "fpgapool_conductor_group"
    for line in (
        # Of the group with the most slots; there are two slots in all.
        f'{name}_wanted_slots{{group="g2"}} 2.0',
        f'{name}_slots{{group="g2",state="serving"}} 1.0',
        f'{name}_slots{{group="g2",state="programming"}} 0.0',
        f'{name}_slots{{group="other",state="serving"}} 1.0',
        f'{name}_waiting_tasks{{group="other"}} 2.0',
        f"{name}_tasks_total 5.0",
        f"{name}_busy_seconds_total 2.5",
        f'{name}_resizes_total{{direction="grow"}} 0.0',
    ):
        assert f"\n{line}\n" in text
    assert f'{name}_slot_seconds_total{{state="serving"}} ' in text
    assert 'group="g1"' not in text


def test_of_a_clock_that_nobody_tells_nothing_is_said(pool) -> None:
    term = _term(lambda question, *_, durable: question(pool.ask))
    text = _told(types.SimpleNamespace(counts=pool.counts, term=term))
    assert 'fpgapool_conductor_host_up{host="a"} 1.0' in text
    assert "\nfpgapool_conductor_host_clock_behind_seconds{" not in text


def test_a_leader_that_does_not_answer_says_so(pool) -> None:
    def look(question, timeout_s, *, durable):
        assert timeout_s < 10
        raise TimeoutError

    conductor = types.SimpleNamespace(counts=pool.counts, term=_term(look))
    text = _told(conductor)
    assert "\nfpgapool_conductor_state_known 0.0\n" in text
    assert "\nfpgapool_conductor_slots{" not in text
    assert "\nfpgapool_conductor_sessions_opened_total 0.0\n" in text


def test_who_stands_by_says_so(pool) -> None:
    text = _told(types.SimpleNamespace(counts=pool.counts, term=None))
    assert "\nfpgapool_conductor_leading 0.0\n" in text
    assert "\nfpgapool_conductor_state_known " not in text
    assert "\nfpgapool_conductor_epoch " not in text
