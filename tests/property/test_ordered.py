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
    assert keys.below((probe,)) == below
    assert keys.below(None) == expected
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
    changes=st.lists(
        st.tuples(
            st.integers(0, 9),
            st.one_of(st.none(), st.integers(0, 50), st.just(float("inf"))),
        ),
        max_size=200,
    ),
    now=st.integers(0, 50),
)
def test_timers_are_like_a_dictionary(
    changes: list[tuple[int, float | None]], now: int
) -> None:
    timers = ordered.Timers()
    plain: dict[int, float] = {}
    for job_id, time_s in changes:
        plain.pop(job_id, None)
        if time_s is None:
            timers.discard(job_id)
        else:
            timers.set(job_id, time_s)
            plain[job_id] = time_s
    plain = {i: t for i, t in plain.items() if t < float("inf")}
    assert len(timers) == len(plain)
    assert timers.earliest_s() == min(plain.values(), default=None)
    due = sorted((t, i) for i, t in plain.items() if t <= now)
    assert timers.pop_due(now) == [i for _, i in due]
    assert all(
        timers.get(i) == (t if t > now else None) for i, t in plain.items()
    )


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
