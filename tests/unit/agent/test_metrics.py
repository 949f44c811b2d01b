# SPDX-License-Identifier: Apache-2.0

"""What an agent counts of what its workers say."""

from fpgapool import objects
from fpgapool.agent import metrics
from fpgapool.agent.slots import slot as slots
from fpgapool.agent.supervision import desks
from fpgapool.common.monitoring import metrics as common_metrics
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

KEY = ("board0", 0)


def _result(generation: int, **members) -> objects.SessionResult:
    return objects.SessionResult(
        **{
            "session_id": f"s{generation}",
            "generation": generation,
            "state": states.CLOSED,
            "code": codes.OK,
            "finished_at": 1.0,
            **members,
        }
    )


def _status(
    generation: int | None = None, moved: tuple[int, int] = (0, 0), **members
) -> slots.WorkerStatus:
    return slots.WorkerStatus(
        **{
            "state": states.SLOT_ACTIVE if generation else states.SLOT_IDLE,
            "session_id": f"s{generation}" if generation else None,
            "generation": generation,
            "seen_generation": generation or 0,
            "project_id": None,
            "programmed": None,
            "input_bytes": moved[0],
            "output_bytes": moved[1],
            "last_result": None,
            "data_port": None,
            **members,
        }
    )


def _counts() -> metrics.Counts:
    counts = metrics.Counts()
    counts.count_status(KEY, _status())
    return counts


def _bytes(counts: metrics.Counts) -> tuple[int, int]:
    return counts.input_bytes["board0"], counts.output_bytes["board0"]


def test_every_byte_is_counted_once() -> None:
    counts = _counts()
    for moved in ((10, 0), (10, 0), (40, 5)):
        counts.count_status(KEY, _status(1, moved))
    assert _bytes(counts) == (40, 5)
    ended = _result(1, input_bytes=50, output_bytes=50)
    for _ in range(2):
        counts.count_status(KEY, _status(last_result=ended))
    assert _bytes(counts) == (50, 50)
    # The next session begins at 0, and the result is still told.
    counts.count_status(KEY, _status(2, (7, 7), last_result=ended))
    assert _bytes(counts) == (57, 57)
    # Of a session that no status told of.
    late = _result(3, input_bytes=100, output_bytes=1)
    counts.count_status(KEY, _status(last_result=late))
    assert _bytes(counts) == (157, 58)


def test_blocks_are_counted_once_also_of_a_new_worker() -> None:
    counts = _counts()
    for hits, evicted, kept_bytes in ((3, 0, 10), (3, 0, 10), (5, 1, 7)):
        blocks = {"hits": hits, "evicted": evicted, "kept_bytes": kept_bytes}
        counts.count_status(KEY, _status(blocks=blocks))
    assert counts.blocks["hits"] == {"board0": 5}
    assert counts.blocks["evicted"] == {"board0": 1}
    assert counts.kept_bytes() == {"board0": 7}
    counts.count_status(KEY, _status(blocks={"hits": 2, "kept_bytes": 0}))
    assert counts.blocks["hits"] == {"board0": 7}
    assert counts.kept_bytes() == {"board0": 0}
    # A worker of an agent before this one has counted already.
    again = metrics.Counts()
    again.count_status(KEY, _status(blocks={"hits": 9, "kept_bytes": 4}))
    assert again.blocks["hits"] == {}
    assert again.kept_bytes() == {"board0": 4}


def test_slots_of_a_device_add_up() -> None:
    counts = _counts()
    other = ("board0", 1)
    counts.count_status(other, _status())
    counts.count_status(KEY, _status(1, (10, 1)))
    counts.count_status(other, _status(2, (20, 2)))
    assert _bytes(counts) == (30, 3)


def test_what_an_earlier_agent_saw_is_not_counted() -> None:
    counts = metrics.Counts()
    before = _result(3, input_bytes=5)
    counts.count_status(KEY, _status(4, (100, 100), last_result=before))
    counts.count_result(KEY, before)
    assert _bytes(counts) == (0, 0)
    assert not counts.results
    counts.count_status(KEY, _status(4, (120, 110), last_result=before))
    assert _bytes(counts) == (20, 10)
    idle = metrics.Counts()
    ended = _result(4, input_bytes=9, output_bytes=9)
    for _ in range(2):
        idle.count_status(KEY, _status(last_result=ended))
    assert _bytes(idle) == (0, 0)


def test_results_are_counted_once() -> None:
    counts = _counts()
    counts.count_result(KEY, None)
    for _ in range(2):
        counts.count_result(KEY, _result(1))
    counts.count_result(
        KEY, _result(2, state=states.FAILED, code="MADE UP BY A WORKER")
    )
    assert counts.results == {("CLOSED", "OK"): 1, ("FAILED", "other"): 1}
    assert not counts.failures


def test_programmings_and_reuses() -> None:
    counts = _counts()
    counts.count_assign(KEY, 1, "aes", 10.0)
    counts.count_prepared(KEY, 1, 10.5)
    # A new secret for the same session.
    counts.count_prepared(KEY, 1, 11.0)
    counts.count_status(KEY, _status(1, programmed="aes"))
    counts.count_assign(KEY, 2, "aes", 20.0)
    counts.count_prepared(KEY, 2, 20.25)
    counts.count_assign(KEY, 3, "fft", 30.0)
    counts.count_prepared(KEY, 3, 30.25)
    assert counts.programmings == {"board0": 2}
    assert counts.reuses == {"board0": 1}
    buckets, total = counts.prepare_s.read()
    assert (buckets[-1][1], total) == (3, 1.0)


def test_failures_of_programming_by_code() -> None:
    counts = _counts()
    for generation, code in enumerate(
        (codes.PROGRAM_FAILED, codes.PROGRAM_FAILED, codes.WORKER_DIED), 1
    ):
        counts.count_assign(KEY, generation, "aes", 1.0)
        counts.count_result(
            KEY, _result(generation, state=states.PREPARE_FAILED, code=code)
        )
    assert counts.failures == {
        ("board0", "PROGRAM_FAILED"): 2,
        ("board0", "WORKER_DIED"): 1,
    }
    assert not counts.programmings


def test_desks_are_told_by_host_and_group() -> None:
    page = common_metrics.Page(metrics.DEFINITIONS)
    figures = desks.Figures(
        group_id="g",
        members=2,
        clients=3,
        waiting=4,
        running=1,
        tasks=50,
        busy_s=2.5,
    )
    page.fill(metrics.GROUPS, figures, "node1", "g")
    told = {
        sample.name: (sample.labels, sample.value)
        for family in page.families()
        for sample in family.samples
    }
    labels = {"host": "node1", "group": "g"}
    assert told == {
        f"fpgapool_agent_group_{name}": (labels, value)
        for name, value in (
            ("members", 2),
            ("clients", 3),
            ("waiting_tasks", 4),
            ("running_tasks", 1),
            ("tasks_total", 50),
            ("busy_seconds_total", 2.5),
        )
    }
