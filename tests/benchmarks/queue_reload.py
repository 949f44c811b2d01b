# SPDX-License-Identifier: Apache-2.0

"""A full queue: what it weighs, and how soon a conductor has it again.

The sessions are written by the project's own database layer while no
conductor runs, a thousand in a transaction, just as a conductor writes them:
a crowd of opens would take longer than all that is measured here. Two slots
are in use, so that nobody is served before the end, when slots are given back
one after the other and each must go to the session that the rule names.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import pathlib
import random
import threading
import time
import uuid
from collections.abc import Callable
from collections.abc import Iterator

from fpgapool.core.queues import thresholds
from fpgapool.db import api as db_api
from tests.benchmarks import measure
from tests.benchmarks import opener
from tests.benchmarks import servers
from tests.benchmarks import usage
from tests.harness import cloud as clouds
from tests.harness import door as doors
from tests.harness import waiting

TITLE = "A full queue: conductor, RabbitMQ, MariaDB"
SERVICES = True

_COUNT = 100_000
_TINY_COUNT = 300
_ROWS_PER_COMMIT = 1000
_PROJECTS = (clouds.PROJECT, clouds.OTHER_PROJECT)
_MEAN_SIZE_BYTES = 400e6
_SEED = 1
_AGE_S = 600.0
_WAIT_TIMEOUT_S = 7200.0
_LIMIT_S = 120.0

_OPTIONS: clouds.Options = {
    "conductor": {
        # The clients that have the slots all the time do nothing.
        "idle_timeout_s": 0,
        "min_progress_bytes_per_s": 0,
    },
    "quota": {"queued": -1, "queued_bytes": -1},
}

_BOARD = clouds.HostPlan("board", slots=2)
_COMPUTE = clouds.HostPlan("compute", slots=0)


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Measure an empty pool, fill its queue, measure again."""
    count = _TINY_COUNT if plan.tiny else _COUNT
    if plan.tiny:
        plan = measure.Plan(repetitions=1, tiny=True)
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(servers.database_url())
        cloud = stack.enter_context(
            servers.running_cloud(
                _BOARD, _COMPUTE, database=url, options=_OPTIONS
            )
        )
        bench = _Bench(cloud, url, plan)
        stack.callback(bench.close)
        yield from bench.at_rest("no session waits")
        bench.fill(count)
        # Once without the clock: the tables' pages are in memory then.
        bench.start()
        yield from bench.restarts(count)
        yield from bench.at_rest(f"{count:,} wait")
        yield from bench.questions(count)
        yield bench.freed_slots(count)


class _Bench:
    """A pool whose two slots are taken, and the queue before them."""

    def __init__(
        self, cloud: clouds.Cloud, database_url: str, plan: measure.Plan
    ) -> None:
        self._cloud = cloud
        self._database = db_api.Database(database_url)
        self._plan = plan
        self._conductor = cloud.conductor
        self._board = cloud.hosts[_BOARD.name]
        self._random = random.Random(_SEED)
        self._queue: collections.deque[db_api.SessionRecord]
        self._doors = {name: self._board.door(name) for name in _PROJECTS}
        self._held = doors.hold_slots(
            self._doors[clouds.PROJECT], _BOARD.slots
        )

    def close(self) -> None:
        """Hang up."""
        for one in (*self._held, *self._doors.values()):
            one.close()
        self._database.close()

    # -- filling -----------------------------------------------------------

    def fill(self, count: int) -> None:
        """Stop the conductor and put so many sessions into its database."""
        self._conductor.stop()
        database = self._database
        lease = database.read_lease()
        assert lease is not None
        snapshot = database.load()
        hosts = [*(host.id for host in snapshot.hosts), None]
        first = snapshot.max_ids.session + 1
        start_s = time.time() - _AGE_S
        records = [
            self._record(first + n, hosts, start_s + n * _AGE_S / count)
            for n in range(count)
        ]
        for start in range(0, count, _ROWS_PER_COMMIT):
            part = records[start : start + _ROWS_PER_COMMIT]
            database.commit(lease.epoch, db_api.Changes.of(part))
        self._queue = collections.deque(sorted(records, key=_place))

    def _record(
        self, id_: int, hosts: list[int | None], queued_at: float
    ) -> db_api.SessionRecord:
        chance = self._random
        return db_api.SessionRecord(
            id=id_,
            session_id=str(uuid.UUID(int=chance.getrandbits(128))),
            request_id=str(uuid.UUID(int=chance.getrandbits(128))),
            project_id=chance.choice(_PROJECTS),
            user_id="1000",
            host_id=chance.choice(hosts),
            accelerator="copy",
            claimed_bytes=int(chance.expovariate(1 / _MEAN_SIZE_BYTES)) + 1,
            state="QUEUED",
            revision=1,
            wait_timeout_s=_WAIT_TIMEOUT_S,
            connect_timeout_s=30.0,
            resume_grace_s=10.0,
            queued_at=queued_at,
        )

    # -- starting ----------------------------------------------------------

    def start(self) -> None:
        """Start the conductor and wait until it answers with its queue."""
        line = f"Host {self._board.name} ({self._board.uuid}) is up"
        self._conductor.start()
        waiting.wait_until(
            lambda: line in self._conductor.present_log(), line, _LIMIT_S
        )
        summary = self._cloud.summary()
        assert summary["waiting"] == len(self._queue), summary
        assert summary["sessions"] == {
            "QUEUED": len(self._queue),
            "ACTIVE": _BOARD.slots,
        }

    def restarts(self, count: int) -> Iterator[measure.Row]:
        """End the conductor in order, and by force; start it again."""
        ended, reloads, after_kill = [], [], []
        for _ in range(self._plan.repetitions):
            began_s = time.perf_counter()
            self._conductor.stop()
            stopped_s = time.perf_counter() - began_s
            reload = self._timed_start()
            reloads.append(reload)
            whole_s = stopped_s + reload.wall_s
            ended.append(measure.Sample(whole_s, whole_s, reload.cpu_s))
            self._conductor.kill()
            after_kill.append(self._timed_start())
        for name, samples in (
            ("restart, from SIGTERM to the first answer", ended),
            ("reload after SIGTERM, from the process's start", reloads),
            ("reload after SIGKILL, from the process's start", after_kill),
        ):
            yield measure.Row(f"{name}: {count:,} wait", "s", samples)

    def _timed_start(self) -> measure.Sample:
        began_s = time.perf_counter()
        self.start()
        wall_s = time.perf_counter() - began_s
        cpu_s = usage.Cpu.of(self._conductor.pid).total_s
        return measure.Sample(wall_s, wall_s, cpu_s)

    # -- measuring ---------------------------------------------------------

    def at_rest(self, what: str) -> Iterator[measure.Row]:
        """Measure memory, and processor time while nothing happens."""
        pid = self._conductor.pid
        window_s = 0.6 if self._plan.tiny else 10.0
        cpu, resident, proportional = [], [], []
        for _ in range(self._plan.repetitions):
            before_s, began_s = _busy_s(pid), time.perf_counter()
            threading.Event().wait(window_s)
            busy_s = _busy_s(pid) - before_s
            wall_s = time.perf_counter() - began_s
            memory = _memory_mib(pid)
            for samples, value in (
                (cpu, 1e3 * busy_s / wall_s),
                (resident, memory["Rss"]),
                (proportional, memory["Pss"]),
            ):
                samples.append(measure.Sample(value, wall_s, busy_s))
        yield measure.Row(f"conductor's RSS: {what}", "MiB", resident)
        yield measure.Row(f"conductor's PSS: {what}", "MiB", proportional)
        yield measure.Row(
            f"conductor at rest: {what}", "ms of a processor per s", cpu
        )

    def questions(self, count: int) -> Iterator[measure.Row]:
        """Ask about waiting sessions and the pool; open, and cancel."""
        asked = 10 if self._plan.tiny else 300
        place = {one.session_id: n for n, one in enumerate(self._queue)}
        chosen = [
            one for one in self._queue if one.project_id == clouds.PROJECT
        ]
        door = self._doors[clouds.PROJECT]

        def get() -> None:
            session_id = self._random.choice(chosen).session_id
            view = door.request("get", session_id=session_id)["session"]
            assert view["state"] == "QUEUED"
            assert view["queue_position"] == place[session_id]

        def ask_pool() -> None:
            assert door.request("pool")["summary"]["waiting"] == count

        # The first one sorts the queue, once.
        yield self._time(f"first get of a session: {count:,} wait", get, 1)
        gets = [opener.timed(get, asked) for _ in self._repetitions]
        pools = [opener.timed(ask_pool, asked) for _ in self._repetitions]
        opens = [
            opener.timed(lambda: _open_and_cancel(door), asked)
            for _ in self._repetitions
        ]
        for name, times in (
            ("get of a session", gets),
            ("summary of the pool", pools),
            ("open until QUEUED, and cancel", opens),
        ):
            yield measure.Row(
                f"{name}: {count:,} wait",
                opener.UNIT,
                [one.median() for one in times],
            )
            yield measure.Row(
                f"{name}, p99: {count:,} wait",
                opener.UNIT,
                [one.percentile_99() for one in times],
            )

    @property
    def _repetitions(self) -> range:
        return range(self._plan.repetitions)

    def _time(
        self, name: str, action: Callable[[], None], count: int
    ) -> measure.Row:
        times = opener.timed(action, count)
        return measure.Row(name, opener.UNIT, [times.median()])

    def freed_slots(self, count: int) -> measure.Row:
        """Give a slot back again and again, and see who gets it.

        The rule names who is next. The other slot stays taken, so that
        whoever has the one cannot be anybody else.
        """
        samples = []
        give_back: Callable[[], object] = functools.partial(
            doors.let_go, [self._held.pop()]
        )
        for _ in self._repetitions:
            following = self._queue.popleft()
            began_s = time.perf_counter()
            give_back()
            self._wait_served(following)
            wall_s = time.perf_counter() - began_s
            samples.append(measure.Sample(1e3 * wall_s, wall_s, 0.0))
            give_back = functools.partial(self._cancel, following)
        assert self._cloud.summary()["waiting"] == len(self._queue)
        return measure.Row(
            f"a slot is given back until the next has it: {count:,} wait",
            opener.UNIT,
            samples,
        )

    def _cancel(self, one: db_api.SessionRecord) -> None:
        door = self._doors[one.project_id]
        door.request("cancel", session_id=one.session_id)

    def _wait_served(self, expected: db_api.SessionRecord) -> None:
        deadline_s = time.monotonic() + _LIMIT_S
        door = self._doors[expected.project_id]
        while True:
            view = door.request("get", session_id=expected.session_id)
            if view["session"]["state"] in ("PREPARING", "READY"):
                return
            assert time.monotonic() < deadline_s, view


def _place(record: db_api.SessionRecord) -> tuple[int, float, int]:
    """Return the place in the queue by the rule of wa and wra.

    All may use the one slot that becomes free: those from its host, and the
    others, whose hosts have none, since the second slot's session is local.
    """
    bounds = thresholds.hybrid_thresholds(20e6, 1.41, 5, 16, 20)
    number = sum(
        record.claimed_bytes > threshold_bytes for threshold_bytes in bounds
    )
    return number, record.queued_at, record.id


def _open_and_cancel(door: doors.Door) -> None:
    request_id = door.open(size_bytes=1_000_000)
    door.wait_state(request_id, "QUEUED")
    door.request("cancel", request_id=request_id)
    door.wait_state(request_id, "CANCELLED")


def _busy_s(pid: int) -> float:
    """Return the processor time of a process, finer than in ticks."""
    total_ns = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total_ns += int((task / "schedstat").read_text().split()[0])
    return total_ns / 1e9


def _memory_mib(pid: int) -> dict[str, float]:
    """Return what a process has in memory, by the kernel's names."""
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    fields = (line.split() for line in lines[1:])
    return {name.rstrip(":"): int(kib) / 1024 for name, kib, *_ in fields}
