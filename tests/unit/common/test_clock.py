# SPDX-License-Identifier: Apache-2.0

from hypothesis import given
from hypothesis import strategies as st

from fpgapool.common import clock


class _Hand:
    """A clock that a test sets."""

    def __init__(self, reading_s: float) -> None:
        self.reading_s = reading_s

    def __call__(self) -> float:
        return self.reading_s


def test_starts_at_the_wall_clock_and_follows_the_monotonic_one():
    wall, monotonic = _Hand(1000.0), _Hand(5.0)
    subject = clock.WallClock(wall=wall, monotonic=monotonic)
    assert subject.now() == 1000.0
    monotonic.reading_s = 7.5
    wall.reading_s = 10.0
    assert subject.now() == 1002.5


def test_who_is_slow_to_tell_the_time_does_not_advance_it():
    monotonic = _Hand(5.0)

    def asked():
        monotonic.reading_s += 8.0
        return 1000.0

    subject = clock.WallClock(wall=asked, monotonic=monotonic)
    assert subject.now() == 1000.0


def test_does_not_start_before_what_was_stored():
    wall, monotonic = _Hand(1000.0), _Hand(5.0)
    subject = clock.WallClock(1500.0, wall=wall, monotonic=monotonic)
    assert subject.now() == 1500.0
    monotonic.reading_s = 6.0
    assert subject.now() == 1501.0


def test_an_older_stored_time_does_not_matter():
    subject = clock.WallClock(500.0, wall=_Hand(1000.0), monotonic=_Hand(0.0))
    assert subject.now() == 1000.0


@given(st.lists(st.floats(0, 1e9)))
def test_never_runs_backwards(readings_s):
    monotonic = _Hand(0.0)
    subject = clock.WallClock(wall=_Hand(1e9), monotonic=monotonic)
    seen = []
    for reading_s in readings_s:
        monotonic.reading_s = reading_s
        seen.append(subject.now())
    assert seen == sorted(seen)


def test_real_clocks_progress():
    subject = clock.WallClock()
    first = subject.now()
    while subject.now() == first:
        pass
    assert subject.now() > first
