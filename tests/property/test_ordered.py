# SPDX-License-Identifier: Apache-2.0

"""The ordered containers against plain lists."""

import math
from unittest import mock

import hypothesis
import hypothesis.strategies as st
import numpy
import pytest

from fpgapool.core import ordered
from fpgapool.core.queues import waiting


@pytest.fixture(autouse=True)
def _short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few keys be enough for many chunks."""
    monkeypatch.setattr(ordered, "_MAX_CHUNK", 4)


@hypothesis.settings(
    suppress_health_check=[
        hypothesis.HealthCheck.function_scoped_fixture,
    ]
)
@hypothesis.given(
    toggled=st.lists(st.integers(0, 60), max_size=150),
    probe=st.integers(-1, 61),
)
def test_sorted_keys_are_like_a_sorted_list(
    toggled: list[int], probe: int
) -> None:
    keys = ordered.SortedKeys()
    plain: set[tuple[int]] = set()
    for number in toggled:
        if (number,) in plain:
            keys.remove((number,))
        else:
            keys.add((number,))
        plain ^= {(number,)}
    expected = sorted(plain)
    below = [key for key in expected if key < (probe,)]
    later = [key for key in expected if key >= (probe,)]
    assert list(keys) == expected
    assert len(keys) == len(expected)
    assert keys.first() == (expected[0] if expected else None)
    assert keys.rank((probe,)) == len(below)
    assert list(ordered.SortedKeys(reversed(expected))) == expected
    assert keys.at_or_after((probe,)) == (later[0] if later else None)
    assert ((probe,) in keys) == ((probe,) in plain)
    assert [keys[n] for n in range(len(keys))] == expected


def test_what_is_not_there_cannot_be_removed() -> None:
    keys = ordered.SortedKeys()
    keys.add((1,))
    with pytest.raises(KeyError):
        keys.remove((2,))
    with pytest.raises(KeyError):
        keys.remove((0,))
    with pytest.raises(IndexError):
        keys[1]


@pytest.mark.parametrize("seed", range(20))
def test_key_queues_are_like_a_sorted_list(seed: int) -> None:
    random = numpy.random.default_rng(seed)
    keys = ordered.KeyQueue()
    # An id may come again with the key that it had, or with another one.
    plain: dict[int, tuple[int, int]] = {}
    for number, place in random.integers((80, 5), size=(1500, 2)).tolist():
        if number in plain:
            # The first one goes as often as another.
            gone = min(plain.values())[-1] if random.random() < 0.5 else number
            keys.remove(plain.pop(gone))
        else:
            plain[number] = (place, number)
            keys.add(plain[number])
        expected = sorted(plain.values())
        assert keys.first() == (expected[0] if expected else None)
        assert bool(keys) == bool(plain)
        assert len(keys) == len(plain)
        assert list(keys) == keys.below(None) == expected
        bound = (place, 40)
        assert keys.below(bound) == [key for key in expected if key < bound]


@pytest.mark.parametrize("seed", range(20))
def test_timers_are_like_a_dictionary(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered, "_MAX_CHUNK", 16)
    random = numpy.random.default_rng(seed)
    timers = ordered.Timers()
    plain: dict[int, float] = {}
    # First most come, then most go.
    shares = (0.9, 0.5, 0.1)
    for step in range(1500):
        job_id, time_s = random.integers((200, 90)).tolist()
        comes = random.random() < shares[step // 500]
        if job_id in plain and not comes:
            timers.remove(plain.pop(job_id), job_id)
        elif job_id not in plain and comes:
            plain[job_id] = float(time_s)
            timers.add(float(time_s), job_id)
        if step % 50 == 0:
            now = min(plain.values(), default=0.0) + 1
            due = sorted((at, i) for i, at in plain.items() if at <= now)
            assert timers.take_due(now) == [job_id for _, job_id in due]
            for _, job_id in due:
                del plain[job_id]
        expected = sorted((at, job_id) for job_id, at in plain.items())
        assert list(timers) == expected
        first_s = expected[0][0] if expected else math.inf
        assert timers.first_s() == first_s


@pytest.mark.parametrize("forwards", [True, False])
def test_what_left_the_middle_of_a_queue_does_not_pile_up(
    forwards: bool,
) -> None:
    keys, timers = ordered.KeyQueue(), ordered.Timers()
    places = range(10_000) if forwards else range(0, -10_000, -1)
    for number, place in enumerate(places):
        keys.add((place, number))
        timers.add(float(place), number)
    for number, place in enumerate(places):
        if number > 20 and number % 100:
            keys.remove((place, number))
            timers.remove(float(place), number)
    assert len(keys) == len(list(keys)) == len(list(timers)) == 120
    assert sum(map(len, keys._buckets)) <= 2 * 120
    assert len(keys._buckets) <= 2 * 120
    assert len(timers._buckets) <= 120


@hypothesis.given(
    changes=st.lists(
        st.tuples(st.integers(0, 60), st.booleans()), max_size=200
    )
)
def test_ranks_are_those_in_a_sorted_list(
    changes: list[tuple[int, bool]],
) -> None:
    plain: set[tuple[int]] = set()
    ranks = ordered.Ranks(lambda: plain)
    with mock.patch.object(ordered, "_MAX_CHANGES", 5):
        for number, asked in changes:
            plain ^= {(number,)}
            ranks.note((number,))
            if asked:
                expected = sum(key < (number,) for key in plain)
                assert ranks.rank((number,)) == expected


def test_ranks_are_not_kept_for_nobody() -> None:
    counted = 0

    def keys() -> list[tuple[int]]:
        nonlocal counted
        counted += 1
        return [(n,) for n in range(10)]

    ranks = ordered.Ranks(keys)
    with mock.patch.object(ordered, "_MAX_CHANGES", 5):
        assert ranks.rank((3,)) == 3
        for more in (2, 0, 2, 0):
            ranks.note((-1,))
            ranks.note((-2,))
            assert ranks.rank((3,)) == 3 + more
        assert counted == 1
        # They come and go again.
        for number in 4 * [10, 11, 12, 13, 14]:
            ranks.note((number,))
        assert ranks.rank((3,)) == 3
        assert counted == 2


@hypothesis.given(
    arrival_s=st.floats(-1e10, 1e10),
    patience_s=st.floats(0, 1e6),
)
def test_first_due_is_the_first_moment(
    arrival_s: float, patience_s: float
) -> None:
    def is_due(now: float) -> bool:
        return now - arrival_s >= patience_s - 1e-12

    due_s = waiting.first_due_s(arrival_s, patience_s)
    assert is_due(due_s)
    assert not is_due(math.nextafter(due_s, float("-inf")))
