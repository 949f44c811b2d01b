# SPDX-License-Identifier: Apache-2.0

"""What is computed from what clients saw."""

from __future__ import annotations

import itertools

import pytest

from fpgapool.vocabulary import codes
from tests.chaos import clients
from tests.chaos import jobs as chaos_jobs
from tests.chaos import judge
from tests.chaos import measure
from tests.chaos import report

#: Ten a second, but none from second 20 to 26.
READY_S = [n / 10 for n in range(600) if not 200 < n < 260]


def outcome(**members: object) -> clients.Outcome:
    values = {
        "conduct": "stream",
        "accelerator": "copy",
        "stateless": True,
        "door": "socket",
        "started_s": 0.0,
        **members,
    }
    return clients.Outcome(**values)


def window(**members: object) -> measure.Window:
    values = {
        "title": "agent-kill",
        "begin_s": 19.0,
        "end_s": 24.0,
        "calm_s": 40.0,
        "before_per_s": 10.0,
        **members,
    }
    return measure.Window(**values)


def test_downtime_is_the_longest_gap() -> None:
    assert measure.longest_gap_s(READY_S, 10.0, 40.0) == pytest.approx(6.0)
    assert measure.longest_gap_s(READY_S, 30.0, 40.0) == pytest.approx(0.1)
    assert measure.longest_gap_s([], 3.0, 8.0) == 5.0


def test_recovery_counts_from_the_end_of_the_fault() -> None:
    found = measure.recovered_after_s(READY_S, window())
    # The first moment from which most of a window is full again.
    assert found == pytest.approx(2.0)
    assert measure.recovered_after_s(READY_S, window(end_s=30.0)) == 0.0


def test_recovery_that_was_not_seen() -> None:
    assert measure.recovered_after_s(READY_S, window(calm_s=27.0)) is None
    assert measure.recovered_after_s(READY_S, window(before_per_s=20)) is None
    assert measure.recovered_after_s([], window()) is None


@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ({"state": ""}, "was_refused"),
        ({"state": "QUEUED"}, "lost_queued"),
        ({"state": "ACTIVE", "ready_s": 1.0}, "lost_stateless"),
        (
            {"state": "ACTIVE", "ready_s": 1.0, "stateless": False},
            "lost_stateful",
        ),
    ],
)
def test_a_failed_job_is_one_kind_of_loss(
    members: dict[str, object], kind: str
) -> None:
    kinds = ("was_refused", "lost_queued", "lost_stateless", "lost_stateful")
    failed = outcome(code="WORKER_DIED", **members)
    wanted = outcome(code="CANCELLED", wanted=True, **members)
    done = outcome(**members)
    for name in kinds:
        test = getattr(measure, name)
        assert test(failed) == (name == kind)
        assert not test(wanted)
        assert not test(done)


def test_rows_count_what_ended_in_a_window() -> None:
    jobs = [
        outcome(ended_s=18.0, code="TIMEOUT"),
        outcome(ended_s=20.0, state="QUEUED", code="TIMEOUT"),
        outcome(ended_s=30.0, ready_s=29.0, state="READY", reopens=1),
        outcome(ended_s=41.0, code="TIMEOUT"),
    ]
    (row,) = measure.rows(READY_S, jobs, [window()])
    assert (row.times, row.jobs, row.moved) == (1, 2, 1)
    assert (row.lost_queued, row.codes) == (1, {"TIMEOUT": 1})
    assert row.lasted_s == [5.0]


def test_two_faults_at_a_time_are_a_kind_of_their_own() -> None:
    windows = [window(), window(title="agent-kill + api-stop")]
    rows = measure.rows(READY_S, [], windows)
    assert [row.title for row in rows] == [measure.TWO_FAULTS, "agent-kill"]


def test_the_tables_have_a_cell_for_each_column() -> None:
    rows = measure.rows(READY_S, [], [window(), window(calm_s=27.0)])
    assert len(report.cells(rows[0])) == len(report.COLUMNS)
    assert "2.0 (2.0), 1 not seen" in report.text(rows, "a title")
    lines = report.rst(rows).splitlines()
    starts = [n for n, line in enumerate(lines) if line.startswith("   * -")]
    sizes = {b - a for a, b in itertools.pairwise([*starts, len(lines)])}
    assert sizes == {len(report.COLUMNS) + 1}


# What must hold.


def test_right_outputs_and_known_errors_are_no_problem() -> None:
    fine = [
        outcome(),
        outcome(code=codes.CONDUCTOR_UNAVAILABLE),
        outcome(code="CANCELLED", state="QUEUED", wanted=True),
        outcome(
            code=codes.WORKER_DIED,
            state="ACTIVE",
            ready_s=1.0,
            stateless=False,
        ),
    ]
    assert judge.wrong(fine) == []
    assert judge.lost(fine) == []


@pytest.mark.parametrize(
    "members",
    [
        {"wrong": "bytes differ"},
        {"bug": "Traceback"},
        {"code": "no such code"},
        {"code": codes.INTERNAL_ERROR},
        # A client whose data are skipped hears that, or is told so.
        {"code": codes.BAD_OFFSET},
        {"code": codes.CHECKSUM_MISMATCH},
    ],
)
def test_what_is_wrong_is_found(members: dict[str, object]) -> None:
    assert len(judge.wrong([outcome(), outcome(**members)])) == 1


def test_what_is_lost_is_found() -> None:
    queued = outcome(code="TIMEOUT", state="QUEUED")
    active = outcome(code="WORKER_DIED", state="ACTIVE", ready_s=1.0)
    assert len(judge.lost([queued, active])) == 2


def test_a_run_has_to_have_sent_streams_again() -> None:
    least = judge.Resent.least(moves=3, duration_s=60.0)
    assert least == judge.Resent(reopens=2, resumes=2)
    enough = [outcome(resent_reopens=1, resent_resumes=1)] * 2
    assert judge.untried(judge.Resent.of(enough), least) == []
    # Moved, but nothing was on its way.
    idle = [outcome(reopens=1, reconnects=1, resent_resumes=1)] * 9
    (found,) = judge.untried(judge.Resent.of(idle), least)
    assert found.startswith("only 0 of at least 2 reopens sent several")
    assert len(judge.untried(judge.Resent.of([]), least)) == 2


def test_every_run_needs_some_that_were_sent_again() -> None:
    assert judge.Resent.least(0, 1.0) == judge.Resent(0, 1)
    assert judge.Resent.least(1, 0.0) == judge.Resent(1, 0)


def test_who_cannot_be_told_for_too_long_may_lose_its_slot() -> None:
    untold = outcome(code=codes.CONNECT_TIMEOUT, state="PREPARING")
    other = outcome(code=codes.WORKER_DIED, state="PREPARING")
    long_s = float(chaos_jobs.CONNECT_TIMEOUT_S)
    assert len(judge.lost([untold, other])) == 2
    assert len(judge.lost([untold, other], long_s)) == 1


@pytest.mark.parametrize(
    ("more", "grown"),
    [
        ((0, 0, 0), False),
        ((judge.SLACK_DESCRIPTORS, 0, 0), False),
        ((judge.SLACK_DESCRIPTORS + 1, 0, 0), True),
        ((0, judge.SLACK_THREADS + 1, 0), True),
        ((0, 0, judge.SLACK_MEMORY_BYTES), False),
        ((0, 0, 2 * judge.SLACK_MEMORY_BYTES), True),
    ],
)
def test_growth_beyond_the_bound_is_found(
    more: tuple[int, int, int], grown: bool
) -> None:
    before = judge.Use(20, 10, 50 << 20)
    after = judge.Use(20 + more[0], 10 + more[1], (50 << 20) + more[2])
    assert bool(judge.growth({"a": before}, {"a": after})) == grown


def test_errors_are_counted_in_logs() -> None:
    log = """INFO all is well
2026-01-01 12:00:00.000 12 ERROR x [-] Traceback (most recent call last):
2026-01-01 12:00:00.000 12 ERROR x   File "a.py", line 1, in <module>
2026-01-01 12:00:00.000 12 ERROR x ValueError: no
Traceback (most recent call last):
  File "b.py", line 2, in <module>
some.where.LostError: gone
LostError: told again, without a traceback
"""
    assert judge.raised(log) == {"ValueError": 1, "some.where.LostError": 1}
    assert judge.bugs(log) == ["1 times ValueError in its log"]
