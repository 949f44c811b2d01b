# SPDX-License-Identifier: Apache-2.0

"""Work per rate: only ratios of sizes and times count."""

import dataclasses
import heapq
import math
import typing

import numpy
import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import strategy
from fpgapool.core.queues import sharing
from fpgapool.strategies import shared
from fpgapool.strategies.joint import candidates
from fpgapool.strategies.joint import pairs
from fpgapool.vocabulary import codes
from tests.unit.core import pools

MB, GB = 1e6, 1e9
#: Its service time is 10 s per GB.
M1, M2, M3 = (
    model.Accelerator(name, peak_bytes_per_s=100 * MB)
    for name in ("m1", "m2", "m3")
)


def make_pool(*hosts: model.HostSpec, **options: float) -> pools.Pool:
    pool = pools.make_pool(*hosts, strategy="auto", options=dict(options))
    pool.step(
        events.AcceleratorsChanged((pools.AES, pools.FFT, M1, M2, M3)), now=0.0
    )
    return pool


def without_network(host: model.HostSpec) -> model.HostSpec:
    """The same with links that limit nothing."""
    return dataclasses.replace(host, nic_bytes_per_s=0.0)


def of_m1(size_bytes: float) -> dict[str, typing.Any]:
    return {"accelerator": "m1", "claimed_bytes": size_bytes}


# -- the worked example ------------------------------------------------------


A = pools.make_job(1, accelerator="m1", claimed_bytes=3 * GB, arrival_s=10.0)
B = pools.make_job(2, accelerator="m2", claimed_bytes=2 * GB)


def decide(
    waiting: int, programming_s: float, *jobs: model.Job
) -> tuple[int, float]:
    """Which job gets the only idle slot of 16, and its score, at 10 s.

    The slot holds m1. The other jobs that wait are very long.
    """
    board, *others = (
        without_network(
            pools.make_host(
                number, 1, programmed="m1", programming_time_s=programming_s
            )
        )
        for number in range(1, 17)
    )
    pool = make_pool(*others)
    for number in range(15):
        pool.submit(pools.make_job(900 + number, accelerator="m1"))
    pool.submit(
        *(
            pools.make_job(100 + n, accelerator="m3", claimed_bytes=1e15)
            for n in range(waiting - len(jobs))
        ),
        *jobs,
    )
    with pytest.MonkeyPatch.context() as patch:
        scores = watch_scores(patch)
        output = pool.step(events.HostUp(board), now=10.0)
    ((job_id, _),) = pools.taken(output)
    return job_id, scores[-1]


def watch_scores(patch: pytest.MonkeyPatch) -> list[float]:
    """Return a list that gets the score of each decision."""
    scores = []

    class Watched(pairs.Decision):
        def make(self) -> strategy.Choice | None:
            choice = super().make()
            if choice is not None:
                scores.append(self.score)
            return choice

    patch.setattr(pairs, "Decision", Watched)
    return scores


@pytest.mark.parametrize(
    ("waiting", "programming_s", "ratio"),
    [(8, 5.0, 0.900), (40, 5.0, 1.228), (8, 0.0, 0.655), (40, 0.0, 0.655)],
)
def test_the_more_jobs_wait_the_more_programming_costs(
    waiting: int, programming_s: float, ratio: float
) -> None:
    """A is larger and fresh, and B has waited; only B needs programming."""
    of_a, of_b = (decide(waiting, programming_s, job)[1] for job in (A, B))
    assert of_b / of_a == pytest.approx(ratio, abs=5e-4)
    first, _ = decide(waiting, programming_s, A, B)
    assert first == (2 if ratio < 1 else 1)


# -- a load over time --------------------------------------------------------


class Course:
    """Jobs that hold their slots for size / 100 MB/s.

    :ivar taken: (job, slot) in the order of the decisions.
    :ivar started_s: when each job got its slot.
    """

    def __init__(self, pool: pools.Pool) -> None:
        self.pool = pool
        self.taken: list[tuple[int, int]] = []
        self.started_s: dict[int, float] = {}
        self.forgotten: list[float] = []
        self._ends: list[tuple[float, int]] = []
        self._wake_s = math.inf

    def run(self, jobs: typing.Iterable[model.Job]) -> None:
        to_come = sorted(jobs, key=lambda job: -job.arrival_s)
        while to_come or self._ends or self.pool.state.waiting_count:
            now = min(
                to_come[-1].arrival_s if to_come else math.inf,
                self._ends[0][0] if self._ends else math.inf,
                self._wake_s,
            )
            batch: list[events.Event] = []
            if self._wake_s <= now:
                self._wake_s = math.inf
                batch.append(events.Wake())
            while self._ends and self._ends[0][0] <= now:
                _, slot_id = heapq.heappop(self._ends)
                generation = self.pool.generation(slot_id)
                batch.append(events.SlotReleased(slot_id, generation))
            while to_come and to_come[-1].arrival_s <= now:
                batch.append(events.JobSubmitted(to_come.pop()))
            self.pool.now = now
            self._follow(self.pool.state.step(batch, now), now)

    def _follow(
        self, output: list[instructions.Instruction], now: float
    ) -> None:
        table = self.pool.state.view.slots
        for order in output:
            if isinstance(order, instructions.WakeAt):
                self._wake_s = order.time_s
            elif isinstance(order, instructions.Program):
                job = self.pool.state.view.record(order.job_id).job
                spec = table.slots[order.slot_id].spec
                program_s = spec.programming_time_s
                if spec.programmed == job.accelerator:
                    program_s = 0.0
                end_s = now + program_s + job.claimed_bytes / (100 * MB)
                heapq.heappush(self._ends, (end_s, order.slot_id))
                self.taken.append((order.job_id, order.slot_id))
                self.started_s[order.job_id] = now
        shapes = set(self.pool.state.view.slots.idle_by_shape)
        for job in self.pool.state.waiting():
            needs = self.pool.state.view.accelerators[job.accelerator].shapes
            if any(
                table.idle_by_shape[shape]
                for shape in shapes
                if not needs or shape in needs
            ):
                self.forgotten.append(now)


def make_load(seed: int, scale: float) -> list[model.Job]:
    """Jobs of power-law sizes, from hosts with boards and without."""
    random = numpy.random.default_rng(seed)
    arrivals_s = numpy.cumsum(random.exponential(0.9, 300))
    return [
        pools.make_job(
            number,
            random.choice([1, 2, 3, 4, 5, None]),
            accelerator=str(random.choice(["m1", "m2", "m3", "fft"])),
            claimed_bytes=scale * (100 * MB + 200 * MB * random.pareto(1.5)),
            arrival_s=scale * float(arrivals_s[number]),
        )
        for number in range(300)
    ]


def make_cloud(scale: float, *, limited: bool) -> pools.Pool:
    hosts = [
        pools.make_host(number, slots, shape, programming_time_s=0.5 * scale)
        for number, slots, shape in [
            (1, 3, "small"),
            (2, 2, "large"),
            (3, 1, "small"),
            (4, 0, "small"),
            (5, 0, "small"),
        ]
    ]
    if not limited:
        hosts = list(map(without_network, hosts))
    # The links of all hosts are slow enough to matter.
    hosts = [
        dataclasses.replace(host, nic_bytes_per_s=host.nic_bytes_per_s / 8)
        for host in hosts
    ]
    pool = make_pool(*hosts)
    pool.step(
        events.AcceleratorsChanged(
            tuple(
                dataclasses.replace(each, return_ratio=0.5)
                for each in (pools.FFT, M1, M2, M3)
            )
        )
    )
    return pool


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_sizes_and_times_by_the_same_factor_change_no_choice(
    seed: int, limited: bool
) -> None:
    found = []
    for scale in (1.0, 475.0):
        course = Course(make_cloud(scale, limited=limited))
        course.run(make_load(seed, scale))
        assert len(course.taken) == 300
        found.append(course)
    assert found[0].taken == found[1].taken
    if limited:
        # The links do matter: some jobs wait beside idle slots.
        assert found[0].forgotten


@pytest.mark.parametrize("seed", range(6))
def test_with_unlimited_networks_no_slot_is_idle_while_a_job_waits(
    seed: int,
) -> None:
    course = Course(make_cloud(1.0, limited=False))
    course.run(make_load(seed, 1.0))
    assert len(course.taken) == 300
    assert course.forgotten == []


# -- starvation --------------------------------------------------------------


@pytest.mark.parametrize("ratio", [1.0, 2.0, 10.0, 100.0])
@pytest.mark.parametrize("small_bytes", [10 * MB, 70 * GB])
@pytest.mark.parametrize("is_same", [True, False])
def test_fresh_small_jobs_delay_a_large_one_up_to_a_bound(
    ratio: float, small_bytes: float, is_same: bool
) -> None:
    """At each end of a job, another small one has just come."""
    pool = make_pool(pools.make_host(1, 1))
    small = {
        "accelerator": "m1" if is_same else "m2",
        "claimed_bytes": small_bytes,
    }
    service_s = ratio * small_bytes / (100 * MB)
    bound_s = service_s / 0.3 * (ratio**0.7 - 1.0)
    step_s = small_bytes / (100 * MB)
    pool.submit(pools.make_job(1, 1, **small))
    pool.submit(
        pools.make_job(
            0, 1, accelerator="m1", claimed_bytes=ratio * small_bytes
        )
    )
    now, number = 0.0, 1
    while True:
        now, number = now + step_s, number + 1
        fresh = pools.make_job(number, 1, arrival_s=now, **small)
        released = events.SlotReleased(10, pool.generation(10))
        output = pool.state.step([events.JobSubmitted(fresh), released], now)
        ((first, _),) = pools.taken(output)
        if first == 0:
            break
        # It is due, but for the end of the job that has the slot.
        assert now < bound_s
    assert bound_s <= now <= bound_s + step_s * (1 + 1e-9)
    if ratio == 100.0:
        assert (now + service_s) / service_s == pytest.approx(81.4, abs=0.1)


# -- clocks ------------------------------------------------------------------


def test_a_clock_that_is_ahead_blocks_nothing() -> None:
    pool = make_pool(pools.make_host(1, 1))
    ahead = pool.submit(pools.make_job(1, 1, arrival_s=1e6))
    assert pools.taken(ahead) == [(1, 10)]
    pool.submit(
        pools.make_job(2, 1, arrival_s=1e6),
        pools.make_job(3, 1, claimed_bytes=2e8),
    )
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == [(2, 10)]
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == [(3, 10)]


def test_nor_does_it_after_a_change_of_the_library() -> None:
    pool = make_pool(pools.make_host(1, 1))
    pool.submit(pools.make_job(1, 1))
    pool.submit(pools.make_job(2, 1, arrival_s=1e6))
    pool.step(events.AcceleratorsChanged((pools.AES,)), now=1.0)
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == [(2, 10)]


# -- looking again -----------------------------------------------------------


def wait_beside_an_idle_slot(size_bytes: float, **options: float) -> float:
    """When the strategy looks again at a job that waits for its own host."""
    pool = make_pool(
        pools.make_host(1, 1),
        pools.make_host(2, 1),
        idle_share=2.0,
        leave_min_free=1.1,
        leave_s_per_byte=1e6,
        **options,
    )
    pool.submit(pools.make_job(1, 1, **of_m1(size_bytes)))
    output = pool.submit(pools.make_job(2, 1, **of_m1(size_bytes)))
    assert pool.state.status(2).reasons == (codes.WAITING_FOR_LOCAL,)
    (wake,) = output
    assert isinstance(wake, instructions.WakeAt)
    return wake.time_s


def test_it_looks_again_after_a_tenth_of_the_mean_service_time() -> None:
    assert wait_beside_an_idle_slot(1 * GB) == pytest.approx(1.0)
    assert wait_beside_an_idle_slot(475 * GB) == pytest.approx(475.0)
    half = wait_beside_an_idle_slot(1 * GB, look_again=0.5)
    assert half == pytest.approx(5.0)


@pytest.mark.parametrize("size_bytes", [1.0, 1 * MB])
def test_tiny_jobs_do_not_keep_it_busy_with_looking(size_bytes: float) -> None:
    assert wait_beside_an_idle_slot(size_bytes) == pytest.approx(0.01)


def test_the_mean_service_time_follows_the_latest_jobs() -> None:
    pool = make_pool(pools.make_host(1, 1))
    kinds = typing.cast(candidates.Candidates, pool.state.view.kinds)

    def submit(first_id: int, count: int, size_bytes: float) -> float:
        pool.state.step(
            [
                events.JobSubmitted(
                    pools.make_job(
                        first_id + n,
                        accelerator="m1",
                        claimed_bytes=size_bytes,
                    )
                )
                for n in range(count)
            ],
            0.0,
        )
        return kinds.mean_service_s

    assert submit(0, 1, 1 * GB) == pytest.approx(10.0)
    assert submit(1, 1, 3 * GB) == pytest.approx(20.0)
    submit(2, 998, 2 * GB)
    assert submit(1000, 3000, 1 * GB) == pytest.approx(10.5, abs=0.05)


# -- who waits, and why ------------------------------------------------------


def test_a_job_without_a_board_waits_for_a_better_rate() -> None:
    pool = make_pool(
        *map(pools.make_host, (1, 2)), pools.make_host(3, 0), idle_share=2.0
    )
    pool.submit(pools.make_job(1, host_id=3))
    (slot_id,) = pool.state.assignments()
    pool.hear(events.Progress, slot_id, 0, 1.25 * GB)
    pool.submit(pools.make_job(2, host_id=3))
    assert pool.state.status(2).reasons == (codes.REMOTE_LIMIT,)
    # Waiting makes half of its peak good enough.
    output = pool.step(events.Wake(), now=1.0)
    assert [job for job, _ in pools.taken(output)] == [2]


def test_a_job_leaves_its_host_at_once_if_the_networks_are_free() -> None:
    hosts = pools.make_host(1, 1), pools.make_host(2, 4)
    slow = {"accelerator": "m1"}
    for options, expected in (
        ({}, [(2, 20)]),
        ({"leave_min_free": 0.95}, []),
    ):
        pool = make_pool(*hosts, idle_share=2.0, **options)
        pool.submit(pools.make_job(1, 1, **slow))
        output = pool.submit(pools.make_job(2, 1, **slow))
        assert pools.taken(output) == expected


def test_waiting_makes_a_job_leave_a_host_whose_network_is_busy() -> None:
    pool = make_pool(
        pools.make_host(1, 3), pools.make_host(2, 1), idle_share=2.0
    )
    pool.submit(pools.make_job(1, 2, accelerator="m1"))
    pool.submit(pools.make_job(2, 2, accelerator="m1"))
    away, _ = sorted(pool.state.assignments())
    pool.hear(events.Progress, away, 0, 1.25 * GB)
    pool.submit(pools.make_job(3, 2))
    assert pool.state.status(3).reasons == (codes.WAITING_FOR_LOCAL,)
    # Waiting makes half of its peak good enough.
    output = pool.step(events.Wake(), now=1.0)
    assert [job for job, _ in pools.taken(output)] == [3]


def test_groups_get_slots_beside_jobs() -> None:
    pool = make_pool(pools.make_host(1, 3))
    pool.submit(pools.make_job(1, 1))
    group = model.Group(
        id=7, accelerator="aes", size=2, min_size=1, max_size=3
    )
    pool.step(events.GroupCreated(group))
    held = pool.state.view.slots.assignments.values()
    assert sorted(hold.group_id or 0 for hold in held) == [0, 7, 7]


def test_the_urgent_go_first_and_projects_take_turns() -> None:
    made = shared.SharedStrategy(
        strategies.auto({}, 0),
        sharing.ShareOptions(fair=True, quantum_bytes=1e8),
        50.0,
    )
    pool = pools.make_pool_of(made, pools.make_host(1, 1))
    pool.submit(pools.make_job(0, project="a"))
    pool.submit(
        *(pools.make_job(n, project="a") for n in range(1, 5)),
        pools.make_job(5, project="b", claimed_bytes=5 * GB),
        pools.make_job(6, project="a", claimed_bytes=9 * GB, arrival_s=-45.0),
    )
    served = []
    for now in (1.0, 2.0, 3.0):
        pool.now = now
        ((job_id, _),) = pools.taken(pool.hear(events.SlotReleased, 10))
        served.append(job_id)
    assert 5 in served
    pool.now = 5.0
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == [(6, 10)]


def test_priorities_come_before_sizes_within_a_project() -> None:
    made = shared.SharedStrategy(
        strategies.auto({}, 0), sharing.ShareOptions(fair=True)
    )
    pool = pools.make_pool_of(made, pools.make_host(1, 1))
    pool.submit(pools.make_job(0))
    pool.submit(
        pools.make_job(1),
        pools.make_job(2, claimed_bytes=9 * GB, priority=5),
    )
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == [(2, 10)]


def test_jobs_that_are_gone_take_no_memory() -> None:
    pool = make_pool(pools.make_host(1, 1, programmed="m1"))
    kinds = typing.cast(candidates.Candidates, pool.state.view.kinds)
    for number in range(1000):
        pool.submit(pools.make_job(number, **of_m1(1e15)))
        pool.hear(events.SlotReleased, 10)
    assert not kinds.all()
    assert len(kinds._due) < 100


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sprad": 1.0}, "unknown options sprad; known options:"),
        ({"ageing": -1.0}, "ageing must be finite"),
        ({"ageing": "1"}, "must be a number"),
    ],
)
def test_bad_options_are_refused(options: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        strategies.auto(options, 0)
