#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The ordered containers against plain lists."""

import math
from unittest import mock

import hypothesis
import hypothesis.strategies as st
import pytest

from fpgapool.core import ordered
from fpgapool.core import waiting


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


@hypothesis.given(
    changes=st.lists(st.tuples(st.integers(0, 40), st.booleans())),
    probe=st.integers(-1, 41),
)
def test_key_heaps_are_like_a_sorted_list(
    changes: list[tuple[int, bool]], probe: int
) -> None:
    keys = ordered.KeyHeap()
    plain: set[tuple[int, int]] = set()
    for number, smallest in changes:
        key = (number // 5, number)
        if key in plain:
            # Most often it is the first one that goes.
            key = min(plain) if smallest else key
            keys.remove(key)
        else:
            keys.add(key)
        plain ^= {key}
        assert keys.first() == min(plain, default=None)
        assert bool(keys) == bool(plain)
        assert len(keys) == len(plain)
        assert len(keys.heap) <= 2 * len(plain)
    expected = sorted(plain)
    assert list(keys) == expected
    assert keys.below(None) == expected
    bound = (probe // 5, probe)
    assert keys.below(bound) == [key for key in expected if key < bound]


@hypothesis.given(
    changes=st.lists(
        st.tuples(st.integers(0, 9), st.integers(-1, 50)), max_size=200
    ),
    now=st.integers(0, 50),
)
def test_timers_are_like_a_dictionary(
    changes: list[tuple[int, int]], now: int
) -> None:
    valid: dict[int, ordered.Timer] = {}
    timers = ordered.Timers(lambda timer: valid.get(timer[1]) is timer)
    with mock.patch.object(ordered, "_MIN_TIMERS", 4):
        for job_id, time_s in changes:
            valid.pop(job_id, None)
            if time_s >= 0:
                valid[job_id] = (float(time_s), job_id)
                timers.add(valid[job_id])
            assert len(timers.heap) <= 1024
    assert timers.first() == min(valid.values(), default=None)
    early = [timer for timer in valid.values() if timer[0] < now]
    assert timers.first(before_s=now) == min(early, default=None)
    due = sorted(timer for timer in valid.values() if timer[0] <= now)
    assert timers.pop_due(now) == [job_id for _, job_id in due]
    left = set(valid.values()) - set(due)
    assert left <= set(timers.heap)


def test_timers_without_meaning_do_not_pile_up() -> None:
    timers = ordered.Timers(lambda timer: timer[1] < 100)
    for number in range(100_000):
        timers.add((float(-number), number))
    assert len(timers.heap) <= 2 * 1024
    assert timers.first() == (-99.0, 99)


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
