# SPDX-License-Identifier: Apache-2.0

"""What happens to a big pool, one phase after the other."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import os
import pathlib
import re
import signal
import subprocess
import time
import typing
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping

import sqlalchemy as sa

from fpgapool.db import models
from tests.benchmarks import usage
from tests.functional.api import harness as api_harness
from tests.harness import cloud as clouds
from tests.harness import processes
from tests.harness import waiting
from tests.scale import crowd as crowds
from tests.scale import judge
from tests.scale import readings
from tests.scale import visits
from tests.services import mariadb as mariadb_service
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service

DOOR = "door"

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_API_THREADS = 24
#: Sessions that are opened at once. Those that get slots are fewer: on a busy
#: machine reports would come so late that hosts would seem to be lost.
_PART = 10_000
_PART_WITH_SLOTS = 1_000
_STANDS_BY = 2
_MIB = 1 << 20

#: Waiting sessions are large, so that clients that come later are served.
_LARGE_BYTES = 1 << 36
_SMALL_BYTES = 1 << 30
_HOLD_S = 2.0
_SETTLED_S = 2.0
_AFTER_RELOAD_S = 3.0
_TAKEN_OVER = re.compile(r"(\d+) sessions taken over in ([\d.]+) s")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """How large the pool is, and for how long it is watched.

    :ivar slots: of each agent.
    :ivar waiting: sessions that wait, besides those that have slots.
    :ivar clients: clients that come and go.
    :ivar visits_per_s: how often one of them comes.
    :ivar leavers: agents that leave and return.
    :ivar seconds: how long processor time is measured, each time.
    :ivar processes: how many have all agents and clients.
    :ivar commands: how often each command that reads the pool runs.
    """

    seed: int = 1
    agents: int = 1000
    slots: int = 8
    waiting: int = 100_000
    projects: int = 5000
    clients: int = 2000
    visits_per_s: float = 60.0
    leavers: int = 100
    seconds: float = 20.0
    processes: int = 4
    report_interval_s: float = 5.0
    report_timeout_s: float = 15.0
    lease_s: float = 6.0
    limit_s: float = 300.0
    commands: int = 3


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a process takes.

    :ivar cpu: share of a processor.
    """

    cpu: float
    memory_bytes: int


#: By process.
Costs: typing.TypeAlias = Mapping[str, Cost]


@dataclasses.dataclass
class Findings:
    """What was measured; times are in seconds.

    :ivar costs: by phase.
    :ivar rates: messages to the conductor per second, by phase and method.
    :ivar times_s: by what took the time.
    :ivar problems: what must not be.
    """

    options: Options
    costs: dict[str, Costs] = dataclasses.field(default_factory=dict)
    rates: dict[str, dict[str, float]] = dataclasses.field(
        default_factory=dict
    )
    times_s: dict[str, float] = dataclasses.field(default_factory=dict)
    readings: list[readings.Reading] = dataclasses.field(default_factory=list)
    counts: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    problems: list[str] = dataclasses.field(default_factory=list)


class Meter:
    """Reads what process groups, and single processes, take."""

    def __init__(
        self, groups: Mapping[str, int], pids: Mapping[str, int]
    ) -> None:
        self._groups = {pgid: name for name, pgid in groups.items()}
        self._pids = {pid: name for name, pid in pids.items()}

    def _read(self) -> tuple[dict[int, float], dict[int, tuple[str, int]]]:
        cpu_s, found = {}, {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            with contextlib.suppress(OSError):
                text = (entry / "stat").read_text()
                fields = text.rpartition(")")[2].split()
                pid = int(entry.name)
                name = self._pids.get(pid) or self._groups.get(int(fields[2]))
                if name is not None:
                    ticks = int(fields[11]) + int(fields[12])
                    cpu_s[pid] = ticks / _TICKS_PER_S
                    found[pid] = name, int(fields[21]) * _PAGE_BYTES
        return cpu_s, found

    @contextlib.contextmanager
    def measuring(self) -> Iterator[dict[str, Cost]]:
        """Give a table that is filled at the end of the block."""
        table: dict[str, Cost] = {}
        started_s, (before_s, _) = time.monotonic(), self._read()
        yield table
        took_s, (after_s, found) = time.monotonic() - started_s, self._read()
        cpu: collections.Counter[str] = collections.Counter()
        memory: collections.Counter[str] = collections.Counter()
        for pid, (name, memory_bytes) in found.items():
            cpu[name] += (after_s[pid] - before_s.get(pid, 0.0)) / took_s
            memory[name] += memory_bytes
        for name in sorted(memory):
            table[name] = Cost(cpu[name], memory[name])


class Run:
    """A run; its methods are phases, in order."""

    def __init__(
        self,
        options: Options,
        cloud: clouds.Cloud,
        api: api_harness.Server,
        crowd: crowds.Crowds,
        servers: Mapping[str, int],
        say: Callable[[str], object],
    ) -> None:
        self.options = options
        self.cloud = cloud
        self.api = api
        self.crowd = crowd
        self._servers = servers
        self._say = say
        self.findings = Findings(options)

    def play(self) -> Findings:
        """Play all phases."""
        for phase in (
            self.register,
            self.fill,
            self.churn,
            self.leave_and_return,
            self.take_over,
            self.reload,
            self.judge,
            self.read,
        ):
            started_s = time.monotonic()
            phase()
            took_s = time.monotonic() - started_s
            self._say(f"{phase.__name__}: {took_s:.1f} s")
        return self.findings

    # Questions.

    @property
    def leader(self) -> processes.Daemon:
        """The conductor that leads."""
        holder = self.cloud.lease_holder()
        (found,) = [one for one in self.cloud.conductors if one.name == holder]
        return found

    def _meter(self) -> Meter:
        leader = self.leader
        groups = dict(self._servers)
        for one in self.cloud.conductors:
            if one.running:
                role = "leader" if one is leader else "stand-by"
                groups[f"conductor ({role})"] = one.pid
        groups["api"] = self.api.pid
        groups["agent without boards"] = self.cloud.hosts[DOOR].agent.pid
        pids = {
            f"agents and clients {number}": child.pid
            for number, child in enumerate(self.crowd.processes, start=1)
        }
        return Meter(groups, pids)

    def _measure(self, phase: str) -> None:
        before, started_s = self._sum("sent"), time.monotonic()
        with self._meter().measuring() as table:
            waiting.pause(self.options.seconds)
        took_s = time.monotonic() - started_s
        rates = {
            method: round(count / took_s, 1)
            for method, count in (self._sum("sent") - before).items()
        }
        self.findings.costs[phase] = table
        self.findings.rates[phase] = rates
        self._say(f"{phase}: {shown(table)}; messages per second: {rates}")

    def _timed(self, title: str, took_s: float) -> None:
        self.findings.times_s[title] = took_s
        self._say(f"{title}: {took_s:.2f} s")

    def _wait(self, check: Callable[[], object], what: str) -> None:
        waiting.wait_until(check, what, self.options.limit_s)

    def _hosts_up(self, daemon: processes.Daemon, since: int = 0) -> int:
        return daemon.log()[since:].count(") is up")

    # Phases.

    def register(self) -> None:
        """Wait until the leader knows all hosts, then let it rest."""
        started_s = time.monotonic()
        leader = self.leader
        everyone = self.options.agents + len(self.cloud.hosts)
        self._wait(
            lambda: self._hosts_up(leader) >= everyone, "all hosts are up"
        )
        self._timed("all hosts are up", time.monotonic() - started_s)
        self._measure("idle")

    def fill(self) -> None:
        """Let all slots be held, and sessions wait."""
        options = self.options
        count = options.agents * options.slots + options.waiting
        habit = visits.Habit(_LARGE_BYTES, None, 1.0)
        slots = options.agents * options.slots
        processes = len(self.crowd.processes)
        started_s, opened = time.monotonic(), 0
        while opened < count:
            part = _PART if opened >= slots else _PART_WITH_SLOTS
            shares = crowds.shared(min(part, count - opened), processes)
            self.crowd.ask_each("fill", [(one, habit) for one in shares])
            opened += sum(shares)
            self._wait_until_used(min(opened, slots))
            self._say(f"{opened} sessions are opened")
        took_s = time.monotonic() - started_s
        self._timed(f"{count} sessions are opened", took_s)
        self._settle()
        self._measure("full")

    def _wait_until_used(self, slots: int) -> None:
        self._wait(
            lambda: self._sum("counts")["used"] >= slots, "slots are used"
        )

    def _settle(self) -> None:
        """Wait until no client asks for a session any more."""
        last = -1

        def settled() -> bool:
            nonlocal last
            before, last = last, self._sum("sent")["submit_sessions"]
            waiting.pause(_SETTLED_S)
            return before == last

        self._wait(settled, "all requests have been answered")

    def _sum(self, name: str) -> collections.Counter[str]:
        """Return the sum of a counter over all processes."""
        return sum(self.crowd.ask(name), collections.Counter())

    def churn(self) -> None:
        """Let clients come and go from now on."""
        options = self.options
        slots = options.agents * options.slots
        # Those that hold slots make room for the others.
        share_per_s = options.visits_per_s / 2 / slots
        count = len(self.crowd.processes)
        shares = crowds.shared(options.clients, count)
        pause_s = options.clients / options.visits_per_s
        small = visits.Habit(_SMALL_BYTES, _HOLD_S, pause_s)
        large = visits.Habit(_LARGE_BYTES, 1 / share_per_s, 1.0)
        self.crowd.ask("finish", share_per_s, large)
        self.crowd.ask_each("come", [(one, small) for one in shares])
        before = self._sum("counts")["closed"]
        started_s = time.monotonic()
        self._measure("coming and going")
        closed = self._sum("counts")["closed"] - before
        rate = closed / (time.monotonic() - started_s)
        self._timed("a session, on the average", 1 / max(rate, 1e-3))

    def leave_and_return(self) -> None:
        """Cut hosts off until they are lost, and let them return."""
        leader = self.leader
        start = len(leader.log())
        shares = crowds.shared(self.options.leavers, len(self.crowd.processes))
        self.crowd.ask_each("leave", [(one,) for one in shares])
        self._wait(
            lambda: (
                leader.log()[start:].count("is considered lost")
                >= self.options.leavers
            ),
            "hosts are lost",
        )
        start, started_s = len(leader.log()), time.monotonic()
        self.crowd.ask("come_back")
        self._wait(
            lambda: self._hosts_up(leader, start) >= self.options.leavers,
            "hosts are back",
        )
        title = f"{self.options.leavers} hosts are back"
        self._timed(title, time.monotonic() - started_s)

    def take_over(self) -> None:
        """Kill the leader; start it again when another one leads."""
        old = self.leader
        (new,) = [one for one in self.cloud.conductors if one is not old]
        epoch = self.cloud.lease().epoch + 1
        start, killed_s = len(new.log()), time.monotonic()
        before_s = usage.cpu_s(new.pid)
        old.kill()

        def after(title: str, check: Callable[[], object]) -> None:
            self._wait(check, title)
            self._timed(f"new leader: {title}", time.monotonic() - killed_s)

        after("has the lease", lambda: "leads, epoch" in new.log()[start:])
        after(
            "has taken over",
            lambda: _TAKEN_OVER.search(new.log(), start) is not None,
        )
        cpu_s = usage.cpu_s(new.pid) - before_s
        self._timed("new leader: processor time until it has", cpu_s)
        self._wait(
            lambda: any(self.crowd.ask("assigned_s", epoch)), "a decision"
        )
        first_s = min(
            one for part in self.crowd.ask("assigned_s", epoch) for one in part
        )
        self._timed("new leader: first decision", first_s - killed_s)
        everyone = self.options.agents + len(self.cloud.hosts)
        after(
            "has heard of all hosts",
            lambda: self._hosts_up(new, start) >= everyone,
        )
        cpu_s = usage.cpu_s(new.pid) - before_s
        self._timed("new leader: processor time until then", cpu_s)
        old.start()

    def reload(self) -> None:
        """Reload the configuration, and change the library."""
        leader = self.leader
        self._reload(
            "configuration",
            lambda: os.kill(leader.pid, signal.SIGHUP),
            "Received",
        )
        self._reload(
            "library",
            self._change_library,
            "The accelerator library has changed",
        )

    def _reload(
        self, what: str, action: Callable[[], object], line: str
    ) -> None:
        """Do something, and ask the leader until it has logged a line."""
        leader = self.leader
        start, started_s = len(leader.log()), time.monotonic()
        action()
        longest_s = done_s = 0.0

        def over() -> bool:
            nonlocal longest_s, done_s
            asked_s = time.monotonic()
            self.api.ask("GET", "/v1/pool")
            now_s = time.monotonic()
            longest_s = max(longest_s, now_s - asked_s)
            if not done_s and line in leader.log()[start:]:
                done_s = now_s
            # What it does may take longer than it takes to begin.
            return bool(done_s) and now_s > done_s + _AFTER_RELOAD_S

        self._wait(over, f"reload of the {what}")
        self._timed(f"reload of the {what}: begins", done_s - started_s)
        self._timed(f"reload of the {what}: longest answer", longest_s)

    def _change_library(self) -> None:
        database = self.cloud.database
        known = database.accelerators()[0]
        peak = known.profile["peak_bytes_per_s"] * 0.9
        profile = {**known.profile, "peak_bytes_per_s": peak}
        database.upsert_accelerators(
            [dataclasses.replace(known, profile=profile)]
        )

    def read(self) -> None:
        """Read lists and the page."""
        front_door = self.cloud.hosts[DOOR].socket_path()
        address = self.api.address
        agent = self.cloud.hosts[DOOR].agent
        found = [
            readings.by_request(
                address, self.api.serving_pid(), front_door, agent.pid
            )
        ]
        if self.options.commands:
            found.append(
                readings.by_command(address, front_door, self.options.commands)
            )
        for one in itertools.chain(*found):
            self.findings.readings.append(one)
            self._say(
                f"{one.title}: {one.time_s:.3f} s, {one.cpu_s:.3f} s of"
                f" processor time, {one.size_bytes} bytes"
            )

    def judge(self) -> None:
        """Let nobody come or leave any more; look for what was lost."""
        self.crowd.ask("close")
        problems: list[str] = ["not looked yet"]

        def nothing_lost() -> bool:
            told: dict[str, visits.Told] = {}
            for part in self.crowd.ask("told"):
                told |= part
            problems[:] = judge.lost(told, self._recorded())
            return not problems

        with contextlib.suppress(AssertionError):
            waiting.wait_until(
                nothing_lost, "nothing is lost", waiting.LIMIT_S
            )
        uses = [use for part in self.crowd.ask("uses") for use in part]
        problems += judge.shared(uses)
        self.findings.problems += problems
        self.findings.counts = self._sum("counts")
        self.findings.counts["uses"] = len(uses)

    def _recorded(self) -> dict[str, str]:
        """Return the states of all sessions in the database."""
        columns = models.sessions.c
        engine = sa.create_engine(self.cloud.database_url)
        with engine.connect() as connection:
            query = sa.select(columns.session_id, columns.state)
            found = dict(connection.execute(query).all())
        engine.dispose()
        return found


def shown(costs: Costs) -> str:
    """Return a table of costs in one line."""
    return ", ".join(
        f"{name} {one.cpu:.3f} ({one.memory_bytes / _MIB:.0f} MiB)"
        for name, one in costs.items()
    )


@contextlib.contextmanager
def staged(
    options: Options,
    workspace: process.Workspace,
    rabbitmq: rabbitmq_service.RabbitMQ,
    mariadb: mariadb_service.MariaDB,
    say: Callable[[str], object],
) -> Iterator[Run]:
    """Start everything, and end it afterwards."""
    transport_url = rabbitmq.transport_url(rabbitmq.create_vhost())
    conductor = {
        "fair_share": True,
        "report_timeout_s": options.report_timeout_s,
        "lease_s": options.lease_s,
        # Clients have slots for as long as they like.
        "wait_timeout_s": 86400,
    }
    with contextlib.ExitStack() as stack:
        cloud = stack.enter_context(
            clouds.Cloud(
                workspace,
                transport_url,
                mariadb.database_url(mariadb.create_database()),
                [clouds.HostPlan(DOOR, slots=0)],
                conductors=_STANDS_BY,
                hurried=False,
                options={
                    "conductor": conductor,
                    "agent": {"report_interval_s": options.report_interval_s},
                },
            )
        )
        api = api_harness.Server(
            f"{cloud.conductor.name}-api",
            cloud,
            workspace,
            threads=_API_THREADS,
            inventory_cache_s=1,
        )
        stack.callback(api.kill)
        api.start()
        crowd = stack.enter_context(
            crowds.running(
                transport_url,
                options.seed,
                hosts=options.agents,
                slots=options.slots,
                projects=options.projects,
                processes=options.processes,
                report_interval_s=options.report_interval_s,
            )
        )
        yield Run(options, cloud, api, crowd, _own(rabbitmq, mariadb), say)


def _own(*services: process.Service) -> dict[str, int]:
    """Return the numbers of the servers that this process has started."""
    return {
        one.name: one._process.pid
        for one in services
        if isinstance(one._process, subprocess.Popen)
    }
