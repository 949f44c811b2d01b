# SPDX-License-Identifier: Apache-2.0

"""Conductors, agents, workers and API of a world, each a process."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import pathlib
import types
import typing
import uuid
from collections.abc import Callable
from collections.abc import Mapping

import oslo_messaging as messaging
from oslo_config import cfg
from oslo_middleware import base as middleware
from oslo_policy import policy

from fpgapool import conf as fpgapool_conf
from fpgapool.agent import service as agent_service
from fpgapool.agent import settings as agent_settings
from fpgapool.agent.child import crew
from fpgapool.agent.child import process as worker_process
from fpgapool.agent.groupdesk import __main__ as desk_main
from fpgapool.agent.groupdesk import service as desk_service
from fpgapool.agent.groupdesk import settings as desk_settings
from fpgapool.agent.host import monitor
from fpgapool.agent.host import shaping
from fpgapool.agent.supervision import forks
from fpgapool.agent.supervision import processes
from fpgapool.agent.worker import __main__ as worker_main
from fpgapool.agent.worker import service as worker_service
from fpgapool.agent.worker import settings as worker_settings
from fpgapool.agent.worker.data import sending
from fpgapool.client.doors import frontdoor
from fpgapool.common import exception
from fpgapool.common.messaging import signing
from fpgapool.conductor import service as conductor_service
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.runtime import garbage
from fpgapool.conductor.runtime import persistence
from fpgapool.db import api as db_api
from fpgapool.db import migration
from fpgapool.objects import identity
from fpgapool.rpcapi import conductor as conductor_rpcapi
from tests.chaos import jobs
from tests.harness import supervised
from tests.world import broker as brokers
from tests.world import database as databases
from tests.world import driver
from tests.world import kernel as kernels
from tests.world import rings
from tests.world import schedule as schedules
from tests.world import sockets
from tests.world import system

#: Short, so that a fault and what comes of it fit into a minute.
OPTIONS: dict[str, dict[str, object]] = {
    "conductor": {
        "lease_s": 3.0,
        "report_timeout_s": 8.0,
        "lost_session_timeout_s": 30.0,
        "connect_timeout_s": float(jobs.CONNECT_TIMEOUT_S),
        "resume_grace_s": 8.0,
        "prepare_timeout_s": 10.0,
        "idle_timeout_s": float(jobs.IDLE_TIMEOUT_S),
        "self_test_after_s": 2.0,
        "self_test_max_s": 4.0,
        "strategy": "wra",
        "fair_share": True,
        "fair_share_quantum_bytes": 20000,
    },
    "api": {"auth_strategy": "noauth"},
    "scheduler": {"elasticity_period_s": 3.0},
}
#: The strategy where sessions take slots from others depends on the seed.
_STRATEGIES = ("wra", "edf", "hjf")
#: Which of them sizes elastic groups depends on the seed.
POLICIES = ("ahead", "nnls", "hybrid", "throughput", "edf")
#: Of desks, as above.
DESK_OPTIONS: dict[str, typing.Any] = {
    "resume_grace_s": 3.0,
    "lock_idle_s": 5.0,
}


#: More commits than these that wait for the database are merged into one.
_WAITING_BATCHES = 3


_KEYS = signing.Keys(signing.CONTROL, (b"w" * signing.KEY_BYTES,))


#: So many kinds of pools there are: a seed that differs by that much has the
#: same kind.
KINDS = 2 * len(POLICIES) * len(_STRATEGIES)


def keys_for(seed: object) -> signing.Keys | None:
    """Return what messages are signed with: in every second world they are."""
    return _KEYS if isinstance(seed, int) and seed % 2 else None


def policy_for(seed: object) -> str:
    """Return what sizes elastic groups."""
    return POLICIES[seed % len(POLICIES) if isinstance(seed, int) else 0]


def strategy_for(seed: int) -> str:
    """Return the strategy where sessions take slots from others."""
    return _STRATEGIES[seed % len(_STRATEGIES)]


def configuration(
    name: str,
    directory: pathlib.Path,
    keys: signing.Keys | None,
    policy: str = POLICIES[0],
    more: Mapping[str, Mapping[str, object]] = types.MappingProxyType({}),
) -> cfg.ConfigOpts:
    """Return the configuration of a conductor.

    :param directory: for its file: overrides would hold for all of them.
    :param keys: that messages are signed with.
    :param more: options, which replace those of all pools.
    """
    lines = []
    for group, options in (*OPTIONS.items(), *more.items()):
        lines.append(f"[{group}]")
        lines += [f"{option} = {value}" for option, value in options.items()]
    path = directory / f"{name}.conf"
    if keys is not None:
        key = directory / "pool.key"
        key.write_text(keys.secrets[0].hex())
        lines += ["[messages]", f"pool_key_file = {key}"]
    lines += ["[conductor]", f"name = {name}"]
    lines += ["[scheduler]", f"elasticity = {policy}"]
    lines += ["[DEFAULT]", f"state_path = {directory}"]
    path.write_text("\n".join(lines))
    conf = cfg.ConfigOpts()
    fpgapool_conf.register_opts(conf)
    conf([], default_config_files=[str(path)], default_config_dirs=[])
    return conf


class Daemon:
    """A service that is started, stopped, killed and started again.

    :ivar process: that it runs in now.
    """

    def __init__(self, pool: Pool, name: str, host: str) -> None:
        self.pool = pool
        self.name = name
        self.host = host
        self.process: kernels.Process | None = None
        self.wall_offset_s = 0.0
        self._stopping: system.Event | None = None

    def start(self) -> None:
        """Start it, if it does not run."""
        if self.runs:
            return
        self.process = self.pool.system.start(self.name, self.host)
        self.process.wall_offset_s = self.wall_offset_s
        self._stopping = system.Event()
        stopping, process = self._stopping, self.process

        def body() -> None:
            self.serve(stopping)
            process.kill(0)

        self.pool.kernel.spawn(process, "main", body)

    def serve(self, stopping: system.Event) -> None:
        """Run until told to stop."""
        raise NotImplementedError

    @property
    def runs(self) -> bool:
        """Whether its process is there."""
        return self.process is not None and self.process.alive

    def stop(self) -> None:
        """Have it end in order."""
        if self._stopping is not None:
            self._stopping.set()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    def set_clock(self, offset_s: float) -> None:
        """Have its wall clock be wrong."""
        self.wall_offset_s = offset_s
        if self.process is not None:
            self.process.wall_offset_s = offset_s


class Conductor(Daemon):
    """A conductor."""

    service: conductor_service.Conductor | None = None

    def serve(self, stopping: system.Event) -> None:
        self.service = conductor_service.Conductor(
            self.pool.configurations[self.name],
            databases.Database(self.pool.database),
            lambda reason: self.pool.kernel.fail(f"{self.name}: {reason}"),
            self.pool.keys,
        )
        self.service.start()
        stopping.wait()
        self.service.stop()

    @property
    def engine(self) -> typing.Any:
        """Its engine; None while it does not lead."""
        if not self.runs or self.service is None:
            return None
        term = self.service.term
        return None if term is None else term.pump._engine


class Agent(Daemon):
    """An agent."""

    agent: agent_service.Agent | None = None

    def __init__(
        self,
        pool: Pool,
        name: str,
        settings: agent_settings.AgentSettings,
    ) -> None:
        super().__init__(pool, f"agent of {name}", name)
        self.settings = settings

    @property
    def uuid(self) -> str:
        """Of its host."""
        return self.settings.host_uuid

    @property
    def board(self) -> driver.Board:
        """Of its host."""
        return driver.BOARDS[self.uuid]

    def front_door(self, project: str) -> str:
        """Return the path of a front door's socket."""
        return self.settings.front_door_sockets[project]

    def workers(self) -> list[kernels.Process]:
        """Return the worker processes of its host."""
        return [
            process
            for pid, process in self.pool.system.processes.items()
            if process.alive
            and self.pool.system.hosts.get(pid) == self.host
            and process.name.startswith("worker")
        ]

    def busy_workers(self) -> list[kernels.Process]:
        """Return those that a session has."""
        if not self.runs or self.agent is None:
            return []
        table, workers = self.agent.table, self.agent.workers
        pids = [supervised.pid(workers, key) for key in table.holders()]
        return [self.pool.system.processes[pid] for pid in pids if pid]

    def serve(self, stopping: system.Event) -> None:
        self.agent = agent_service.make(self.settings)
        self.agent.start()
        stopping.wait()
        self.agent.stop()


class _NoNetwork:
    """Has no links."""

    def find_network(self, _address: str) -> None:
        return None

    def is_capped(self, _device: str) -> bool:
        return False

    def counters(self, _device: str) -> tuple[int, int]:
        return 0, 0

    def speed_bytes_per_s(self, _device: str) -> None:
        return None

    def uncap(self) -> None:
        """Nothing to do."""

    def find_device(self, _address: str | None) -> None:
        return None


class Pool:
    """A whole pool, not started.

    :param database: an empty one, see :func:`databases.empty`.
    :param options: what conductors are configured with, in addition.
    """

    def __init__(
        self,
        kernel: kernels.Kernel,
        database: bytes,
        directory: pathlib.Path,
        options: Mapping[str, Mapping[str, object]],
    ) -> None:
        self.kernel = kernel
        self.keys = keys_for(kernel.seed)
        self.system = sockets.System(kernel, self._run_program)
        modules = self.system.modules()
        rings.install(modules)
        system.install(kernel, modules)
        self.broker = brokers.Broker(kernel)
        self.broker.install()
        self.database = databases.Server(kernel, database)
        _detach_from_this_machine()
        persistence.MAX_WAITING_BATCHES = _WAITING_BATCHES
        names = [f"conductor{n + 1}" for n in range(schedules.CONDUCTORS)]
        policy = policy_for(kernel.seed)
        self.configurations = {
            name: configuration(name, directory, self.keys, policy, options)
            for name in names
        }
        self.conductors = [Conductor(self, name, name) for name in names]
        #: What serves the REST API; filled by the world.
        self.apis: list[Daemon] = []
        #: Processes of clients, by number.
        self.clients: list[kernels.Process] = []
        #: Those of programs that use groups.
        self.guests: list[kernels.Process] = []
        #: The front door of each of them.
        self.doors: dict[kernels.Process, str] = {}
        #: Hosts that have lost their power, and when.
        self.lost: list[tuple[str, float]] = []
        #: What runs in the processes that agents have started.
        self.workers: dict[kernels.Process, worker_service.Worker] = {}
        self.desks: dict[kernels.Process, desk_service.Desk] = {}
        worker_process.exit_on_signals = self._began  # type: ignore
        processes.runs = self.system.runs
        # No number is used again.
        processes.run_of = str
        frontdoor.default_path = self._door
        self.agents = [
            self._agent(directory, number, slots)
            for number, slots in enumerate(schedules.SLOTS)
        ]

    def _door(self) -> str:
        return self.doors[self.kernel.task().process]

    def _agent(
        self, directory: pathlib.Path, number: int, slots: int
    ) -> Agent:
        name = f"node{number + 1}"
        host_uuid = str(uuid.UUID(int=number + 1))
        settings = agent_settings.AgentSettings(
            host_uuid=host_uuid,
            keys=self._keys_of(host_uuid),
            host_name=name,
            state_path=str(directory / name),
            driver_name="world",
            driver_path="tests.world.driver:WorldDriver",
            front_door_sockets={
                project: f"/world/{name}/{project}.sock"
                for project in schedules.PROJECTS
            },
            data_address=f"10.0.0.{number + 1}",
            tls=False,
            nic_device="eth0",
            nic_bytes_per_s=1e8,
            report_interval_s=2.0,
            open_timeout_s=10.0,
            session_poll_interval_s=3.0,
            chunk_bytes=4096,
            window_chunks=4,
            worker_orphan_s=60.0,
            # All processes are this one.
            isolation="none",
        )
        driver.BOARDS[settings.host_uuid] = driver.Board(slots)
        return Agent(self, name, settings)

    @property
    def daemons(self) -> list[Daemon]:
        """All services."""
        return [*self.conductors, *self.agents, *self.apis]

    def leader(self) -> Conductor | None:
        """Return the conductor that leads, as it sees it itself."""
        leaders = [one for one in self.conductors if one.engine is not None]
        if not leaders:
            return None
        return max(leaders, key=lambda one: one.service.term.epoch)

    def start(self) -> None:
        """Start everything."""
        process = self.system.start("operator")

        def prepare() -> None:
            database = databases.Database(self.database)
            database.upsert_accelerators(
                [
                    db_api.AcceleratorRecord(
                        name=name, profile=dataclasses.asdict(profile)
                    )
                    for name, profile in driver.PROFILES.items()
                ]
            )
            for daemon in self.daemons:
                daemon.start()

        self.kernel.spawn(process, "prepare", prepare)

    def _keys_of(self, host_uuid: str) -> signing.Keys | None:
        if self.keys is None:
            return None
        key = bytes.fromhex(self.keys.host_key(host_uuid))
        return signing.Keys(host_uuid, (key,))

    def insist(
        self, call: Callable[[conductor_rpcapi.ConductorAPI], object]
    ) -> None:
        """Ask until there is an answer; a refusal is one, too."""
        process = self.system.start("operator")

        def body() -> None:
            conductor = conductor_rpcapi.ConductorAPI(keys=self.keys)
            while True:
                try:
                    call(conductor)
                    return
                except (
                    messaging.MessagingException,
                    exception.DatabaseUnavailable,
                    exception.NotLeader,
                    exception.Overloaded,
                ):
                    self.kernel.sleep(0.5)
                except exception.FpgapoolException:
                    return

        self.kernel.spawn(process, "insist", body)

    def reserve(self, agent: Agent, count: int) -> None:
        """Have instances reserve slots, as Placement would tell it."""
        leader = self.leader()
        if leader is None:
            return
        device = identity.device_id(agent.uuid, driver.BOARD)
        held = {str(uuid.UUID(int=999)): count} if count else {}
        leader.service.term.pump.put(
            inputs.Reservations({device: held} if held else {})
        )

    def operate(
        self, call: Callable[[conductor_rpcapi.ConductorAPI], object]
    ) -> None:
        """Ask the conductor something, in a process of its own.

        :param call: what is asked; a refusal, or no answer, will do.
        """
        process = self.system.start("operator")

        def body() -> None:
            with contextlib.suppress(
                messaging.MessagingException, exception.FpgapoolException
            ):
                call(conductor_rpcapi.ConductorAPI(keys=self.keys))

        self.kernel.spawn(process, "operate", body)

    def _run_program(
        self, process: kernels.Process, arguments: list[str]
    ) -> None:
        run = _run_worker
        if process.module == processes.DESK_MODULE:
            run = _run_desk

        def body() -> None:
            # To start Python, and import what it needs.
            self.kernel.sleep(self.kernel.random.uniform(0.1, 0.5))
            process.kill(run(arguments[-1]))

        self.kernel.spawn(process, "main", body)

    def _began(self, end: typing.Any) -> None:
        """Take a worker or a desk, by its method that ends it."""
        process = self.kernel.task().process
        if isinstance(end.__self__, desk_service.Desk):
            self.desks[process] = end.__self__
        else:
            self.workers[process] = end.__self__
        self.system.on_terminate[process.pid] = lambda: end("signal 15")


def _run_worker(document: str) -> int:
    return worker_main._run(worker_settings.parse(document))


def _run_desk(document: str) -> int:
    settings = desk_settings.parse(document)
    return desk_main._run(dataclasses.replace(settings, **DESK_OPTIONS))


def _detach_from_this_machine() -> None:
    """Have nothing ask the machine that this runs on."""
    crew.CREW = system.PerProcess(crew.Crew)  # type: ignore
    # Agents start processes one by one.
    forks.ForkServer.launch = lambda _server: None  # type: ignore
    # Chunks are short here.
    sending.LONG_BYTES = 2048
    garbage.spill = lambda *, collect: None  # type: ignore
    migration.require_newest = lambda _engine: None
    monitor.NetlinkKernel = _NoNetwork  # type: ignore
    shaping.PrivilegedKernel = _NoNetwork  # type: ignore
    # oslo.policy asks for each part of each rule that it checks, and
    # oslo.middleware for each answer.
    inspect.getfullargspec = functools.cache(inspect.getfullargspec)
    middleware.getfullargspec = inspect.getfullargspec
    _load_rules_once()


def _load_rules_once() -> None:
    """Have oslo.policy look for files of rules once: none come later."""
    load = policy.Enforcer.load_rules
    loaded: set[policy.Enforcer] = set()

    def load_once(
        enforcer: policy.Enforcer, force_reload: bool = False
    ) -> None:
        if force_reload or enforcer not in loaded:
            loaded.add(enforcer)
            load(enforcer, force_reload)

    policy.Enforcer.load_rules = load_once
