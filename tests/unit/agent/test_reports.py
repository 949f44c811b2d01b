# SPDX-License-Identifier: Apache-2.0

"""When a host reports: its loop's time is the test's."""

from __future__ import annotations

from fpgapool.agent import reports

INTERVAL_S = 5.0


class _Timer:
    def __init__(self, due_s, callback) -> None:
        self.due_s, self.callback = due_s, callback

    def cancel(self) -> None:
        self.callback = None


class _World:
    """A loop, a slot table and casts, in virtual time."""

    def __init__(self) -> None:
        self.time_s = 100.0
        self.timers: list[_Timer] = []
        self.busy = 0
        self.sent_s: list[float] = []
        self.reporter = reports.Reporter(
            self, self, None, self, INTERVAL_S, lambda **members: members
        )
        self.reporter.start()

    def now(self) -> float:
        return self.time_s

    def call_later(self, delay_s, callback) -> _Timer:
        self.timers.append(_Timer(self.time_s + max(delay_s, 0.0), callback))
        return self.timers[-1]

    def call(self, callback) -> None:
        callback()

    def holders(self) -> range:
        return range(self.busy)

    def put_first(self, key, cast) -> None:
        self.sent_s.append(round(self.time_s - 100.0, 6))

    def change(self, busy: int) -> None:
        self.busy = busy
        self.reporter.soon()

    def run_until(self, time_s: float) -> None:
        end_s = 100.0 + time_s
        while due := [
            one for one in self.timers if one.callback and one.due_s <= end_s
        ]:
            timer = min(due, key=lambda one: one.due_s)
            self.time_s = timer.due_s
            callback, timer.callback = timer.callback, None
            callback()
        self.time_s = end_s


def test_a_slot_that_becomes_free_is_reported_at_once():
    world = _World()
    world.run_until(1.0)
    world.change(2)
    world.run_until(2.0)
    world.change(1)
    world.run_until(3.0)
    assert world.sent_s == [0.0, 1.0 + reports.GATHER_S, 2.0]


def test_slots_that_become_free_one_after_the_other_share_reports():
    world = _World()
    world.run_until(1.0)
    world.change(9)
    world.run_until(2.0)
    for number in range(9):
        world.run_until(2.0 + number * reports.PAUSE_S / 4)
        world.change(8 - number)
    world.run_until(3.0)
    pause_s = reports.PAUSE_S
    assert world.sent_s[2:] == [2.0, 2.0 + pause_s, 2.0 + 2 * pause_s]


def test_a_lost_report_does_not_delay_that_of_a_free_slot():
    world = _World()
    world.run_until(1.0)
    world.change(2)
    world.run_until(2.0)
    world.change(1)
    world.run_until(2.0)
    world.change(0)
    world.reporter.failed(reports.KEY)
    world.run_until(2.5)
    assert world.sent_s[-2:] == [2.0, 2.0 + reports.PAUSE_S]
