# SPDX-License-Identifier: Apache-2.0

"""What the judge says of the tasks of groups, and of what they cost."""

from __future__ import annotations

import dataclasses

import pytest

from fpgapool.vocabulary import codes
from tests.chaos import grouptasks
from tests.chaos import judge

GOOD = grouptasks.Batch(
    "chaos-group-aes", "submit", "door", 1.0, opened=True, sent=3, right=3
)


def test_tasks_with_right_results_are_no_problem() -> None:
    assert judge.wrong_tasks([GOOD]) == []


@pytest.mark.parametrize("code", [codes.TIMEOUT, codes.DATABASE_UNAVAILABLE])
def test_a_group_may_be_out_of_reach_during_a_fault(code: str) -> None:
    away = dataclasses.replace(GOOD, opened=False, sent=0, right=0, code=code)
    assert judge.wrong_tasks([away]) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"wrong": "3 bytes"},
        {"not_once": 1},
        {"bug": "ValueError"},
        {"opened": False, "code": "NO_SUCH_CODE"},
        {"right": 2},
        {"right": 2, "code": codes.TASK_LOST},
    ],
    ids=str,
)
def test_a_wrong_end_of_a_task_is_found(changes: dict[str, object]) -> None:
    wrong = dataclasses.replace(GOOD, **changes)  # type: ignore[arg-type]
    assert judge.wrong_tasks([GOOD, wrong])


@pytest.mark.parametrize(
    ("busy_s", "idle_s", "is_right"),
    [
        (5.0, 195.0, True),
        (200.0, 0.0, True),
        # No task was charged.
        (0.0, 200.0, False),
        # Members were hardly charged, or for longer than there were some.
        (5.0, 50.0, False),
        (5.0, 3600.0, False),
    ],
)
def test_members_are_charged_for_their_time(
    busy_s: float, idle_s: float, is_right: bool
) -> None:
    usage = [
        {"group_busy_s": busy_s, "group_idle_s": 0.0},
        {"group_busy_s": 0.0, "group_idle_s": idle_s},
    ]
    assert (judge.charged(usage, lived_s=100.0) == []) is is_right
