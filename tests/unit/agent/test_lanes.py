# SPDX-License-Identifier: Apache-2.0

"""Nobody waits behind the crowd of another lane."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.agent import lanes


def _drain(found: lanes.Lanes[int]) -> list[object]:
    return [found.pop()[0] for _ in range(len(found))]


def test_lanes_take_turns_and_keep_their_order() -> None:
    found: lanes.Lanes[int] = lanes.Lanes(100)
    for number in range(6):
        found.put("crowd", f"c{number}", number)
    found.put("one", "o0", 0)
    found.put("two", "t0", 0)
    found.put("two", "t1", 1)
    assert _drain(found) == "c0 o0 t0 c1 t1 c2 c3 c4 c5".split()


def test_a_newer_one_takes_the_place_of_an_older_one() -> None:
    found: lanes.Lanes[int] = lanes.Lanes(2)
    assert found.put("a", "first", 1) is None
    assert found.put("a", "second", 2) is None
    assert found.put("a", "first", 3) is None
    assert [found.pop(), found.pop()] == [("first", 3), ("second", 2)]
    with pytest.raises(KeyError):
        found.pop()


def test_where_there_is_no_room_the_longest_lane_loses_its_last() -> None:
    found: lanes.Lanes[int] = lanes.Lanes(4)
    for number in range(4):
        found.put("crowd", number, number)
    assert found.put("one", "o", 9) == 3
    assert found.put("crowd", 4, 4) == 4
    assert _drain(found) == [0, "o", 1, 2]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=60),
    st.integers(1, 8),
)
def test_no_more_than_the_limit_and_none_lost_silently(puts, limit) -> None:
    found: lanes.Lanes[tuple[int, int, int]] = lanes.Lanes(limit)
    waiting: dict[tuple[int, int], tuple[int, int, int]] = {}
    for serial, (lane, key) in enumerate(puts):
        value = (lane, key, serial)
        waiting[lane, key] = value
        gone = found.put(lane, key, value)
        if gone is not None:
            del waiting[gone[0], gone[1]]
        assert len(found) == len(waiting) <= limit
    popped = [found.pop()[1] for _ in range(len(found))]
    assert sorted(popped) == sorted(waiting.values())


@given(st.integers(1, 20), st.integers(1, 200))
def test_a_lane_gets_its_share(own_count, crowd_count) -> None:
    """Of the first 2 n that leave, n are of the lane that has as many."""
    found: lanes.Lanes[int] = lanes.Lanes(1000)
    for number in range(crowd_count):
        found.put("crowd", ("crowd", number), number)
    for number in range(own_count):
        found.put("own", ("own", number), number)
    first = [found.pop()[0][0] for _ in range(min(2 * own_count, len(found)))]
    assert first.count("own") >= min(own_count, len(first) // 2)
