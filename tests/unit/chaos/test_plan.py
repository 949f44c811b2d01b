# SPDX-License-Identifier: Apache-2.0

"""The faults of a run are decided by its seed."""

from __future__ import annotations

import itertools

import pytest

from tests.chaos import __main__ as command
from tests.chaos import faults
from tests.chaos import plan

ALL = len(faults.KINDS)


def some(seed: int, count: int, **options: float) -> list[plan.Blow]:
    blows = plan.blows(seed, faults.KINDS, **options)
    return list(itertools.islice(blows, count))


def test_a_seed_can_be_repeated() -> None:
    assert some(1, 2 * ALL) == some(1, 2 * ALL)
    assert some(1, 2 * ALL) != some(2, 2 * ALL)


def test_every_kind_comes_before_one_comes_again() -> None:
    blows = some(3, 2 * ALL)
    for part in (blows[:ALL], blows[ALL:]):
        assert {blow.kinds[0] for blow in part} == set(faults.KINDS)


@pytest.mark.parametrize("seed", range(5))
def test_short_runs_have_faults_that_move_streams(seed: int) -> None:
    movers = [blow.kinds[0].moves for blow in some(seed, ALL)]
    assert sum(movers) == 3
    assert movers[0]
    # From one to the next.
    assert "0" * (ALL // 3 + 3) not in "".join("01"[one] for one in movers)


def test_two_at_a_time_are_of_two_components() -> None:
    pairs = [blow.kinds for blow in some(4, 500) if len(blow.kinds) == 2]
    assert 50 < len(pairs) < 150
    assert all(one.component != other.component for one, other in pairs)


def test_no_second_one_where_none_is_wanted() -> None:
    assert all(len(b.kinds) == 1 for b in some(5, 100, second_share=0.0))


def test_titles_are_unique_and_can_be_chosen() -> None:
    titles = [kind.title for kind in faults.KINDS]
    assert len(set(titles)) == len(titles)
    assert [kind.title for kind in faults.named(titles)] == titles
    assert faults.named([]) == list(faults.KINDS)


def test_a_single_component_has_no_second_fault() -> None:
    kinds = faults.named(["agent-kill", "agent-stop"])
    blows = itertools.islice(plan.blows(6, kinds, 1.0), 4)
    assert all(len(blow.kinds) == 1 for blow in blows)


def test_no_kind_is_an_error() -> None:
    with pytest.raises(ValueError):
        next(plan.blows(7, []))


@pytest.mark.parametrize(
    "arguments",
    [
        ["agent-melt"],
        ["--minutes=0"],
        ["--minutes=nan"],
        ["--minutes=soon"],
        ["--clients=0"],
        ["--clients=100000"],
        ["--conductors=1"],
        ["--seed=x"],
    ],
)
def test_wrong_arguments_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        command.parse(arguments)
    assert raised.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_a_seed_is_made_up_where_none_is_named() -> None:
    first, _ = command.parse([])
    second, _ = command.parse([])
    assert first.seed != second.seed
    assert command.parse(["--seed=7"])[0].seed == 7
