# SPDX-License-Identifier: Apache-2.0

"""Play schedules, each in a process of its own."""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import datetime
import faulthandler
import functools
import gc
import hashlib
import itertools
import json
import logging
import os
import pathlib
import resource
import select
import signal
import tempfile
import time
import traceback
import typing
from collections.abc import Callable
from collections.abc import Iterator

from fpgapool.agent import metrics as agent_metrics
from fpgapool.client.sessions import opening
from fpgapool.common.monitoring import metrics
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.chaos import clients
from tests.chaos import jobs
from tests.chaos import judge
from tests.world import api
from tests.world import database as databases
from tests.world import invariants
from tests.world import kernel as kernels
from tests.world import part
from tests.world import parts
from tests.world import pool as pools
from tests.world import schedule as schedules
from tests.world import system
from tests.world import visits

_Key = typing.TypeVar("_Key")

#: States of slots that sessions have.
_IN_USE = (states.SLOT_READY, states.SLOT_ACTIVE, states.SLOT_DETACHED)

#: So long all clients may take, and the pool to be at rest again then.
CLIENTS_S = 400.0
REST_S = 120.0

#: Of the real system: a step that takes longer hangs. What takes too many of
#: them ends by itself, so that no verdict depends on the machine's speed.
LIMIT_S = 900

#: See madvise(2).
_MADV_COLLAPSE = 25
_HUGE_BYTES = 2**21
#: The larger half of the sessions with other hosts has two connections.
_RETURN_FROM_BYTES = 2**12
#: What a schedule needs beside what there is before it, and the size of the
#: blocks in which it is had.
_SPARE_BYTES = 2**25
_BLOCK_BYTES = 448
#: Until the pool knows how a session has ended, when nothing goes wrong.
_HEARD_S = 10.0
#: Until a worker has told its agent of it.
_CLEARED_S = 1.0
#: How often metrics are looked at, a second apart, until all is at rest.
_SCRAPES = 10
#: Clocks may be wrong by hours.
_DAY_BEFORE = datetime.datetime.fromtimestamp(
    kernels.BEGINS_AT - 86400.0, datetime.UTC
).date()


@dataclasses.dataclass
class Result:
    """What became of a schedule.

    :ivar problems: what was wrong; empty if nothing was.
    :ivar trace: a digest of all that happened.
    :ivar virtual_s: how long it took there …
    :ivar facts: what its parts tell.
    """

    seed: int
    problems: list[str] = dataclasses.field(default_factory=list)
    trace: str = ""
    virtual_s: float = 0.0
    real_s: float = 0.0
    steps: int = 0
    ends: dict[str, int] = dataclasses.field(default_factory=dict)
    facts: dict[str, object] = dataclasses.field(default_factory=dict)


class _Errors(logging.Handler):
    """Collects what the product logs of bugs, and of threads that ended."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.bugs: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[0] is not None:
            text = "".join(traceback.format_exception(*record.exc_info))
            message = record.getMessage()
            is_bug = record.exc_info[0].__name__ in judge._BUGS
            if is_bug or message.startswith("The thread"):
                self.bugs.append(f"logged: {message}\n{text}")


class World:
    """One run."""

    def __init__(
        self,
        schedule: schedules.Schedule,
        database: bytes,
        directory: pathlib.Path,
    ) -> None:
        opening.RETURN_FROM_BYTES = _RETURN_FROM_BYTES
        self.schedule = schedule
        self.kernel = kernels.Kernel(schedule.seed)
        kinds = parts.of(schedule)
        for kind in kinds:
            kind.prepare(self.kernel)
        self.pool = pools.Pool(
            self.kernel, database, directory, parts.options(schedule)
        )
        self.pool.apis += [
            api.Api(
                self.pool,
                name,
                pools.configuration(name, directory, self.pool.keys),
            )
            for name in ("api1", "api2")
        ]
        self.watcher = invariants.Watcher(
            self.kernel, self.pool.database, self._calm_s
        )
        self.watcher.install()
        self.parts: list[part.Part] = [kind(self) for kind in kinds]
        self.outcomes: list[clients.Outcome] = []
        #: The hosts of the front doors that sessions came by.
        self._doors: dict[str, str] = {}
        self.visits = [
            *schedule.visits,
            *(visit for one in self.parts for visit in one.visits()),
        ]
        self._busy = 0
        self._faults = 0
        self._calm_since_s = 0.0
        self._digest = hashlib.sha256()

    def run(self) -> list[str]:
        """Play it."""
        kernel, pool = self.kernel, self.pool
        pool.start()
        if not kernel.run(self._is_up, 30.0):
            return kernel.failures or ["the pool does not start"]
        self._begin_weather()
        self._begin_clients()
        for one in self.parts:
            one.begin()
        for fault in self.schedule.faults:
            kernel.at(fault.begins_s, functools.partial(self._begin, fault))
        if not kernel.run(lambda: not self._busy, CLIENTS_S):
            return kernel.failures or self._stuck()
        self._heal()
        rest = _Rest(self)
        if not kernel.run(rest, REST_S):
            return kernel.failures or list(rest.differences())
        return [
            *kernel.failures,
            *self._judge(),
            *(problem for one in self.parts for problem in one.wrong()),
            *self._unserved(),
            *self._scrape(),
        ]

    def _is_up(self) -> bool:
        leader = self.pool.leader()
        if leader is None:
            return False
        hosts = leader.engine.pool.registry.hosts.values()
        return sum(host.up for host in hosts) == len(self.pool.agents)

    # Clients.

    def _begin_clients(self) -> None:
        by_client: dict[int, list[schedules.Visit]] = collections.defaultdict(
            list
        )
        for visit in self.visits:
            by_client[visit.client].append(visit)
        for number, planned in sorted(by_client.items()):
            self._begin_client(number, planned)

    def _begin_client(
        self, number: int, planned: list[schedules.Visit]
    ) -> None:
        pool, kernel = self.pool, self.kernel
        agent = pool.agents[planned[0].host]
        process = pool.system.start(f"client {number}", agent.host)
        pool.clients.append(process)
        self._busy += 1
        current: list[clients.Outcome] = []

        def ended() -> None:
            self._busy -= 1
            for outcome in current:
                # It was killed: what it wanted is nobody's concern.
                outcome.wanted = True
                outcome.ended_s = 1.0
                self.outcomes.append(outcome)

        process.at_exit.append(ended)

        def body() -> None:
            for visit in planned:
                kernel.sleep(visit.pause_s)
                self._visit(visit, current)
            process.kill(0)

        kernel.spawn(process, "main", body)

    def _visit(
        self, visit: schedules.Visit, current: list[clients.Outcome]
    ) -> None:
        job = visit.job()
        agent = self.pool.agents[visit.host]
        project = schedules.PROJECTS[visit.project]
        door: typing.Any = agent.front_door(project)
        if visit.by_api and visit.conduct != "stranger":
            door = api.front_door(self.pool, project)
        outcome = clients.Outcome(
            job.conduct,
            job.accelerator,
            job.stateless,
            "api" if visit.by_api else "socket",
            self.kernel.now_s,
        )
        current.append(outcome)
        try:
            called = visits.Visit(
                job, "", "", outcome, functools.partial(self._think, visit)
            )
            called._options["front_door"] = door
            for one in self.parts:
                called._options |= one.session_options(visit)
            called._door = agent.front_door(project)
            called.run()
        except clients.client.FpgapoolError as error:
            outcome.code = error.code
            outcome.message = error.message
        except Exception:
            outcome.bug = traceback.format_exc()
        current.clear()
        outcome.ended_s = self.kernel.now_s
        self.outcomes.append(outcome)
        if outcome.door == "socket":
            self._doors[outcome.session_id] = agent.host
        for one in self.parts:
            one.visited(visit, outcome)
        for problem in judge.wrong([outcome]):
            self.kernel.fail(problem)
        self._digest.update(
            f"{outcome.code} {outcome.session_id} {outcome.ended_s}".encode()
        )

    def _think(
        self, visit: schedules.Visit, event: str, **_members: object
    ) -> None:
        """Not every client comes to its slot at once."""
        if event == "ready":
            self.kernel.sleep(visit.think_s)

    def play(self, process: kernels.Process, run: Callable[[], None]) -> None:
        """Run something in a process; the run lasts until that has ended."""
        self._busy += 1

        def ended() -> None:
            self._busy -= 1

        def body() -> None:
            run()
            process.kill(0)

        process.at_exit.append(ended)
        self.kernel.spawn(process, "main", body)

    def stored(self) -> db_api.Database:
        """Return what reads the database as it is, without faults."""
        return _stored(self.pool.database)

    # Faults.

    def _begin_weather(self) -> None:
        weather, database = self.pool.broker.weather, self.pool.database
        weather.lost, weather.doubled, weather.late = self.schedule.weather
        database.fails_before, database.fails_after = self.schedule.fails

    def _begin(self, fault: schedules.Fault) -> None:
        undo = parts.FAULTS[fault.kind](self.pool, fault)
        self._faults += 1

        def end() -> None:
            undo()
            self._faults -= 1
            self._calm_since_s = self.kernel.now_s

        self.kernel.at(fault.lasts_s, end)

    def _calm_s(self) -> float:
        """For how long nothing has gone wrong."""
        if self._faults or self.schedule.weather[0] or self.schedule.fails[0]:
            return 0.0
        return self.kernel.now_s - self._calm_since_s

    def _heal(self) -> None:
        """Nothing goes wrong any more."""
        pool = self.pool
        pool.broker.weather.lost = pool.broker.weather.doubled = 0.0
        pool.broker.weather.late = 0.0
        pool.database.fails_before = pool.database.fails_after = 0.0
        pool.database.away = False
        pool.database.clock_s = 0.0
        pool.database.cut.clear()
        pool.broker.mute.clear()
        pool.broker.deaf.clear()
        pool.broker.recover()
        pool.system.cuts.clear()
        for daemon in pool.daemons:
            daemon.set_clock(0.0)
            daemon.start()

    # The end.

    def _stuck(self) -> list[str]:
        waiting = [
            process.name for process in self.pool.clients if process.alive
        ]
        waiting += [name for one in self.parts for name in one.waiting()]
        return [f"clients wait for ever: {waiting}"]

    def _judge(self) -> list[str]:
        schedule, outcomes = self.schedule, self.outcomes
        if any(
            fault.kind == "client-stop"
            and fault.lasts_s >= jobs.IDLE_TIMEOUT_S
            for fault in schedule.faults
        ):
            # A client that sends nothing for so long loses its slot.
            outcomes = [
                one for one in outcomes if one.code != codes.IDLE_TIMEOUT
            ]
        outcomes = [
            one
            for one in outcomes
            if not any(each.excuses(one) for each in self.parts)
        ]
        broken = sum(one.kind == "slot-broken" for one in schedule.faults)
        if broken >= sessions.MAX_FAILED_SLOTS:
            # A session may have got one after the other, and ends by that.
            outcomes = [
                one for one in outcomes if one.code != codes.PROGRAM_FAILED
            ]
        found = judge.lost(outcomes, schedule.longest_trouble_s)
        if len(self.outcomes) < len(self.visits) and not any(
            fault.kind in ("client-kill", "host-lost")
            for fault in schedule.faults
        ):
            found.append("visits without an outcome")
        return found

    def rows(self) -> dict[str, db_api.SessionRecord]:
        """Return the sessions that clients had, by id."""
        database = _stored(self.pool.database)
        return {
            row.session_id: row
            for row in database.sessions_by_ids(
                {one.session_id for one in self.outcomes}
            )
        }

    def _unserved(self) -> list[str]:
        """Find sessions that were served and did not end so."""
        rows, found = self.rows(), []
        for one in self.outcomes:
            if one.code or one.wanted or one.conduct not in _SERVED:
                continue
            row = rows.get(one.session_id)
            if (
                row is not None
                and row.state != states.CLOSED
                and not self._is_forgotten(one)
            ):
                found.append(f"served, but {row.state} {row.reason}: {one}")
        return found

    def _is_forgotten(self, one: clients.Outcome) -> bool:
        """Return whether all that knew of an end were lost before they told.

        That is the session's worker, its client, and the front door that
        repeats what the client said, if that is its host's agent: nobody does
        so in the REST API if the worker has confirmed the end.
        """
        system, heard_s = self.pool.system, self.schedule.longest_trouble_s
        homes = [
            home
            for (session_id, _), home in self.watcher.homes.items()
            if session_id == one.session_id and home is not None
        ]
        if one.door == "api":
            return any(
                home.died_s is not None
                and 0 <= home.died_s - one.ended_s <= heard_s + _CLEARED_S
                for home in homes
            )
        hosts = {system.hosts[home.pid] for home in homes}
        return any(
            host == self._doors.get(one.session_id)
            and host in hosts
            and 0 <= lost_s - one.ended_s <= heard_s + _HEARD_S
            for host, lost_s in self.pool.lost
        )

    def _scrape(self) -> list[str]:
        """See that agents tell Prometheus of slots that are at rest."""
        found: list[str] = []
        for _ in range(_SCRAPES):
            found = self._scrape_once()
            if not found:
                break
            # An agent that has just begun knows no slots yet.
            self.kernel.run(lambda: False, 1)
        return found

    def _scrape_once(self) -> list[str]:
        pages: dict[str, metrics.Page] = {}

        def scrape(agent: pools.Agent) -> None:
            page = metrics.Page(agent_metrics.DEFINITIONS)
            agent.agent.fill(page)
            pages[agent.host] = page

        for agent in self.pool.agents:
            body = functools.partial(scrape, agent)
            self.kernel.spawn(agent.process, "scrape", body)
        if not self.kernel.run(
            lambda: len(pages) == len(self.pool.agents), 30
        ):
            return [*self.kernel.failures, "an agent tells no metrics"]
        return [
            f"metrics of {agent.host}: {told}"
            for agent in self.pool.agents
            if (told := _slots(pages[agent.host])).total()
            != len(agent.agent.table.slot_keys())
            or any(told[state] for state in _IN_USE)
        ]

    @property
    def trace(self) -> str:
        """A digest of all that happened."""
        self._digest.update(
            f"{self.kernel.now_s} {self.kernel.steps}".encode()
        )
        return self._digest.hexdigest()[:16]


def _slots(page: metrics.Page) -> collections.Counter[str]:
    """Return how many slots a page tells, by their states."""
    told = collections.Counter[str]()
    for family in page.families():
        for sample in family.samples:
            if sample.name == "fpgapool_agent_slots":
                told[sample.labels["state"]] += int(sample.value)
    return told


#: A client that does so, and hears of no error, was served.
_SERVED = ("stream", "pieces", "slow")


class _Rest:
    """Whether the pool is at rest; looked at twice a second."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._next_s = 0.0

    def __call__(self) -> bool:
        now_s = self._world.kernel.now_s
        if now_s < self._next_s:
            return False
        self._next_s = now_s + 0.5
        # The first is enough; the database comes last, and takes long.
        return next(self.differences(), None) is None

    def differences(self) -> Iterator[str]:
        pool = self._world.pool
        leader = pool.leader()
        if leader is None:
            yield "nobody leads"
            return
        brain = leader.engine
        for hold in brain.pool.holds.values():
            yield f"held: {hold}"
        for job in brain.pool.core.waiting():
            yield f"waits: {job} {brain.pool.core.status(job.id)}"
        for agent in pool.agents:
            if not agent.runs or agent.agent is None:
                yield f"{agent.name} does not run"
                continue
            table = agent.agent.table
            for key, holder in table.holders().items():
                yield f"{agent.name}: {key} is held by {holder}"
        database = _stored(pool.database)
        snapshot = database.load()
        for row in snapshot.live_sessions:
            yield f"live in the database: {row}"
        for assignment in snapshot.assignments:
            yield f"assigned in the database: {assignment}"
        for group in (*snapshot.groups, *snapshot.group_clients):
            yield f"in the database: {group}"
        for gap in database.usage_gaps(_DAY_BEFORE):
            yield f"not in the usage: {gap}"
        for process, desk in pool.desks.items():
            if process.alive:
                yield f"{process} is there: {desk.status()}"


def _stored(server: databases.Server) -> db_api.Database:
    database = db_api.Database.__new__(db_api.Database)
    databases.look(database, server)
    return database


def play(
    schedule: schedules.Schedule,
    database: bytes,
    change: Callable[[], None] | None,
    directory: pathlib.Path,
) -> Result:
    """Play a schedule in this process, which is of no use afterwards."""
    started_s = time.perf_counter()
    result = Result(schedule.seed)
    errors = _Errors()
    logging.getLogger().handlers[:] = [errors]
    logging.getLogger().setLevel(logging.ERROR)
    if change is not None:
        change()
    world = World(schedule, database, directory)
    try:
        result.problems = world.run()
    except Exception:
        result.problems = [traceback.format_exc()]
    result.problems += errors.bugs
    result.trace = world.trace
    result.virtual_s = world.kernel.now_s
    result.steps = world.kernel.steps
    result.ends = dict(
        collections.Counter(each.code for each in world.outcomes)
    )
    for one in world.parts:
        result.facts |= one.facts()
    result.real_s = time.perf_counter() - started_s
    return result


class Player:
    """Plays a schedule in a process of its own."""

    def __init__(
        self,
        schedule: schedules.Schedule,
        database: bytes,
        change: Callable[[], None] | None = None,
    ) -> None:
        self._seed = schedule.seed
        self._text = b""
        # Here: the process may be killed.
        self._directory = tempfile.TemporaryDirectory(prefix="world-")
        directory = pathlib.Path(self._directory.name)
        system.inhabited()
        _spare()
        reader, writer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(reader)
            _play_in_child(schedule, database, change, directory, writer)
        os.close(writer)
        self._reader = reader

    def fileno(self) -> int:
        """Return what becomes readable when there is something to read."""
        return self._reader

    def read(self) -> bool:
        """Read what there is."""
        piece = os.read(self._reader, 65536)
        self._text += piece
        return not piece

    def result(self) -> Result:
        """Return what became of it, once all has been read."""
        self._end()
        if not self._text:
            return Result(self._seed, ["the world hangs, or broke down"])
        return Result(**json.loads(self._text))

    def kill(self) -> None:
        """End it."""
        os.kill(self._pid, signal.SIGKILL)
        self._end()

    def _end(self) -> None:
        os.waitpid(self._pid, 0)
        os.close(self._reader)
        self._directory.cleanup()


@functools.cache
def _spare() -> list[bytes]:
    """Give the interpreter memory that it has for later; return its rest.

    A block is left in each of its pieces, so that it keeps them.
    """
    blocks = [bytes(_BLOCK_BYTES) for _ in range(_SPARE_BYTES // _BLOCK_BYTES)]
    return blocks[:: 2**20 // _BLOCK_BYTES]


def _take_huge_pages() -> None:
    """Have what this process has allocated in huge pages, if Linux can.

    A world visits most of its memory again and again: most of the time that
    it takes would be spent in looking up small pages.
    """
    madvise = ctypes.CDLL(None).madvise
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        addresses, modes, _offset, _device, inode, *name = line.split()
        if modes != "rw-p" or inode != "0" or name not in ([], ["[heap]"]):
            continue
        first, end = (int(one, 16) for one in addresses.split("-"))
        first = -(-first // _HUGE_BYTES) * _HUGE_BYTES
        size = end // _HUGE_BYTES * _HUGE_BYTES - first
        if size > 0:
            area = ctypes.c_void_p(first), ctypes.c_size_t(size)
            # What cannot be had in them stays as it is.
            madvise(*area, _MADV_COLLAPSE)


def _play_in_child(
    schedule: schedules.Schedule,
    database: bytes,
    change: Callable[[], None] | None,
    directory: pathlib.Path,
    writer: int,
) -> None:
    status = 1
    try:
        # What waits for something real would wait for ever.
        signal.alarm(LIMIT_S)
        faulthandler.register(signal.SIGALRM, chain=True)
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        # It ends before there is much to collect.
        gc.disable()
        _take_huge_pages()
        result = play(schedule, database, change, directory)
        with open(writer, "w") as pipe:
            json.dump(dataclasses.asdict(result), pipe)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


@dataclasses.dataclass(frozen=True)
class Wanted(typing.Generic[_Key]):
    """A schedule that is to be played.

    :ivar key: what its result is told with.
    """

    key: _Key
    schedule: schedules.Schedule
    change: Callable[[], None] | None = None


def play_side_by_side(
    wanted: Iterator[Wanted[_Key]], database: bytes, processes: int
) -> typing.Generator[tuple[_Key, Result], None, None]:
    """Play schedules, and yield what became of each, as they end.

    :param processes: how many may run at the same time.
    """
    running: dict[int, tuple[_Key, Player]] = {}
    poller = select.poll()
    try:
        while True:
            for one in itertools.islice(wanted, processes - len(running)):
                player = Player(one.schedule, database, one.change)
                running[player.fileno()] = one.key, player
                poller.register(player.fileno(), select.POLLIN)
            if not running:
                return
            for fd, _events in poller.poll():
                key, player = running[fd]
                if player.read():
                    poller.unregister(fd)
                    del running[fd]
                    yield key, player.result()
    finally:
        for _key, player in running.values():
            player.kill()


def play_apart(
    schedule: schedules.Schedule,
    database: bytes,
    change: Callable[[], None] | None = None,
) -> Result:
    """Play a schedule in a process of its own, and wait for that."""
    wanted = Wanted(None, schedule, change)
    ((_, result),) = play_side_by_side(iter([wanted]), database, 1)
    return result
