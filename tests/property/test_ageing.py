# SPDX-License-Identifier: Apache-2.0

"""Random jobs and times: the first job is the one that sorting finds."""

import math

import hypothesis
import hypothesis.stateful as stateful
import hypothesis.strategies as st

from fpgapool.core.queues import ageing
from fpgapool.core.queues import queued
from tests.property import fuzzing
from tests.unit.core import pools

#: Few values, so that jobs are often equal, and cross at the same time.
NUMBERS = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 3.0])
SLOPES = st.sampled_from([0.0, 1e-6, 0.5, 1.0, 2.0, 1e6])


class AgeingMachine(stateful.RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.queue = ageing.AgeingQueue()
        #: By id: the job's record, and the start and slope of its urgency.
        self.lines: dict[int, tuple[queued.JobRecord, float, float]] = {}
        self.now_s = 0.0
        self.count = 0

    @stateful.rule(
        start=NUMBERS | st.floats(-10, 10),
        slope=SLOPES | st.floats(0, 10),
        key=st.sampled_from([0.0, 1.0]),
    )
    def add(self, start: float, slope: float, key: float) -> None:
        self.count += 1
        record = queued.JobRecord(
            pools.make_job(self.count), (key, self.count)
        )
        self.queue.add(record, start, slope, self.now_s)
        self.lines[self.count] = (record, start, slope)

    @stateful.precondition(lambda self: self.lines)
    @stateful.rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.lines)))
        self.queue.remove(self.lines.pop(job_id)[0])

    @stateful.precondition(lambda self: self.lines)
    @stateful.rule()
    def remove_first(self) -> None:
        record = self.queue.records[self.queue.first(self.now_s)]
        assert record is not None
        self.queue.remove(self.lines.pop(record.job.id)[0])

    @stateful.rule(after_s=NUMBERS | st.floats(0, 100))
    def wait(self, after_s: float) -> None:
        self.now_s += after_s

    @stateful.rule()
    def wait_until_overtaken(self) -> None:
        if self.now_s < self.queue.until_s < math.inf:
            self.now_s = self.queue.until_s

    @stateful.rule(fraction=st.floats(0.0, 1.0, exclude_max=True))
    def before_it_is_overtaken_the_first_stays(self, fraction: float) -> None:
        self.queue.first(self.now_s)
        left_s = min(self.queue.until_s - self.now_s, 1e3)
        self.check(self.queue.leader, self.now_s + fraction * left_s)

    @stateful.invariant()
    def the_first_is_as_sorted(self) -> None:
        self.check(self.queue.first(self.now_s), self.now_s)
        assert self.queue.until_s > self.now_s
        held = {record.job.id for record in self.queue.jobs()}
        assert held == self.lines.keys()
        for record, start, slope in self.lines.values():
            assert self.queue.records[record.column] is record
            assert self.queue.line(record.column) == (start, slope)

    def check(self, place: int, time_s: float) -> None:
        """The job at this place comes first at this time.

        Jobs whose urgency only differs by rounding may be in any order.
        """
        if not self.lines:
            assert place == -1
            return
        found = self.queue.records[place]
        assert found is not None
        urgency = {
            job_id: start + slope * time_s
            for job_id, (_, start, slope) in self.lines.items()
        }
        first = min(
            self.lines, key=lambda i: (-urgency[i], self.lines[i][0].key)
        )
        if found.job.id != first:
            size = max(
                abs(start) + slope * time_s
                for _, start, slope in self.lines.values()
            )
            assert urgency[first] - urgency[found.job.id] <= 1e-12 * size


TestAgeing = AgeingMachine.TestCase
TestAgeing.settings = hypothesis.settings(
    fuzzing.limits(200), stateful_step_count=40
)


def test_of_equals_the_smaller_key_is_first_at_every_time() -> None:
    queue = ageing.AgeingQueue()
    records = [
        queued.JobRecord(pools.make_job(n), (0.0, n)) for n in (3, 1, 2)
    ]
    for record in records:
        queue.add(record, 1.0, 0.5, 0.0)
    for time_s in (0.0, 1.0, 1e9):
        assert queue.first(time_s) == records[1].column
    queue.remove(records[1])
    assert queue.first(1e9) == records[2].column
    # Where two lines cross, the smaller key wins at that very time.
    queue.add(records[1], 1.0 - 0.5e9, 1.0, 0.0)
    assert queue.first(1e9) == records[1].column
