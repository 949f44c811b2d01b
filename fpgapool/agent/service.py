# SPDX-License-Identifier: Apache-2.0

"""The agent of one host, put together.

Nothing here is global to the process: several agents, each with a host
identity and a state directory of its own, can live in one.
"""

from __future__ import annotations

import collections
import dataclasses
import fcntl
import functools
import os
import pathlib
import socket
import threading
import time
import typing
from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.agent import cache
from fpgapool.agent import energy
from fpgapool.agent import fetching
from fpgapool.agent import frontdoor
from fpgapool.agent import loop as agent_loop
from fpgapool.agent import manager
from fpgapool.agent import metrics as agent_metrics
from fpgapool.agent import monitor
from fpgapool.agent import sender
from fpgapool.agent import settings as agent_settings
from fpgapool.agent import shaping
from fpgapool.agent import table
from fpgapool.agent import trust
from fpgapool.agent import workers
from fpgapool.common import clock
from fpgapool.common import metrics
from fpgapool.common import ratelimit
from fpgapool.common import rpc
from fpgapool.common import signing
from fpgapool.drivers import base as drivers
from fpgapool.drivers import loader
from fpgapool.rpcapi import agent as agent_api
from fpgapool.rpcapi import conductor as conductor_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)

TICK_S = 1.0
REPORT_RETRY_S = 1.0

#: A slot on its way to its client changes several times within milliseconds,
#: and the conductor need not hear of each step.
REPORT_GATHER_S = 0.02

#: How long workers found running may take to speak before the first report
#: goes out without them.
SETTLE_TIMEOUT_S = 5.0
SETTLE_INTERVAL_S = 0.02

#: Letting go of a slot may have to wait for the end of its programming.
RELEASE_TIMEOUT_S = 10.0

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 5.0

#: Who scrapes metrics does not wait much longer.
METRICS_TIMEOUT_S = 2.0

LOCK_NAME = "agent.lock"
CACHE_NAME = "bitstream-cache"


class AgentError(Exception):
    """The agent cannot start."""


class RpcServer(typing.Protocol):
    """The part of oslo.messaging's server that an agent uses."""

    def start(self) -> typing.Any:
        """Begin to receive."""

    def stop(self) -> typing.Any:
        """Receive nothing more."""

    def wait(self) -> typing.Any:
        """Wait for the handlers that still run."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Condition:
    """What a board says of itself."""

    health: drivers.Health
    power_w: float | None


class Agent:
    """The agent of one host.

    :param settings: identity, paths and limits.
    :param conductor: the conductor's RPC interface.
    :param make_server: builds the RPC server around an endpoint.
    :param counts: to count what happens in; ``conductor`` may do so, too.
    """

    def __init__(
        self,
        settings: agent_settings.AgentSettings,
        conductor: conductor_api.ConductorAPI,
        *,
        make_server: Callable[[manager.AgentManager], RpcServer] | None = None,
        counts: agent_metrics.Counts | None = None,
    ) -> None:
        self._counts = counts or agent_metrics.Counts()
        self._settings = settings
        self._conductor = conductor
        self._make_server = make_server or functools.partial(
            _rpc_server, settings.host_uuid, settings.keys
        )
        self.manager = manager.AgentManager(self)
        self._boot_id = f"{time.time_ns()}-{os.getpid()}"
        self._clock = clock.WallClock()
        self._trust = trust.Trust(settings.trusted_keys)
        # Each session with such a bitstream causes lines.
        self._untrusted_log = ratelimit.RateLimitedLog(__name__)
        self._sequence = 0
        self._report_pending = False
        self._report_gathering = False
        # Slots in use at the last report, or more since.
        self._most_busy = 0
        self._report_timer: agent_loop.Timer | None = None
        self._checking_health = False
        self._lock_fd: int | None = None
        self._server: RpcServer | None = None
        self._serving = False
        self._stopped = threading.Event()
        self._stop_lock = threading.Lock()

    # Life.

    def start(self) -> None:
        """Take over what runs, start the rest, and serve.

        :raises: AgentError, drivers.DriverError or
            frontdoor.FrontDoorError.
        """
        self._prepare_state_dir()
        try:
            self._build()
        except BaseException:
            self._unlock()
            raise
        try:
            self._start_parts()
        except BaseException:
            self.stop()
            raise
        LOG.info(
            "Agent of host %s (%s) serves %d slots",
            self._settings.host_name,
            self._settings.host_uuid,
            len(self.table.slot_keys()),
        )

    def stop(self) -> None:
        """Stop serving; sessions go on if workers outlive the agent.

        Stopping twice, or without having started, does nothing.
        """
        with self._stop_lock:
            if self._stopped.is_set() or self._lock_fd is None:
                return
            self._stop_parts()
            self._unlock()
            self._stopped.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the agent is stopped.

        :param timeout_s: how long, None for ever.
        :returns: whether it is.
        """
        return self._stopped.wait(timeout_s)

    def fill(self, page: metrics.Page) -> None:
        """Tell metrics; any thread may ask.

        :param page: where.
        """
        writer = agent_metrics.Writer(self._settings.host_name, page)
        writer.put_counts(self._counts)
        if not self._serving:
            writer.put(agent_metrics.STATE_KNOWN, 0)
            return
        writer.put_nic(self._nic.reading)
        writer.put(agent_metrics.DROPPED, self._casts.dropped)
        writer.put_all(agent_metrics.STARTED, self.workers.started)
        writer.put_all(agent_metrics.WORKERS_ENDED, self.workers.ended)
        writer.put_all(agent_metrics.REFUSALS, self.table.refusals)
        writer.put_cache(self._cache.counts)
        reports: list[objects.DeviceReport] = []
        try:
            self.loop.run_and_wait(
                lambda: reports.extend(self.table.device_reports()),
                METRICS_TIMEOUT_S,
            )
        except TimeoutError:
            writer.put(agent_metrics.STATE_KNOWN, 0)
            return
        writer.put(agent_metrics.STATE_KNOWN, 1)
        writer.put_devices(reports)

    def _prepare_state_dir(self) -> None:
        path = pathlib.Path(self._settings.state_path)
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.chmod(0o700)
            fd = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise AgentError(f"state_path {path}: {error}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            raise AgentError(
                f"state_path {path}: another agent uses it"
            ) from error
        self._lock_fd = fd

    def _unlock(self) -> None:
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def _build(self) -> None:
        settings = self._settings
        self._driver = loader.load_driver_path(
            settings.driver_path,
            {
                **agent_settings.driver_settings(settings),
                "state_dir": settings.state_path,
            },
        )
        self._devices = _checked(self._driver.discover())
        programming_s = max(
            (device.programming_time_s for device in self._devices),
            default=0.0,
        )
        #: Only the loop's thread touches it.
        self.table = table.SlotTable(
            table.HostFacts(
                settings.host_uuid,
                settings.data_network,
                settings.data_address,
            ),
            self._devices,
            release_timeout_s=RELEASE_TIMEOUT_S + 2 * programming_s,
        )
        self._meter = energy.Meter(self.table.slot_keys())
        name = f"agent-{settings.host_name}"
        self.loop = agent_loop.Loop(name)
        self._casts = sender.Sender(
            f"{name}-sender", self._conductor.together, self._cast_failed
        )
        self._caller = sender.Caller(self.loop, f"{name}-caller")
        self.workers = workers.Supervisor(
            agent_settings.worker_settings(settings), self.loop, self
        )
        self._front_door = frontdoor.FrontDoor(
            agent_settings.front_door_settings(settings),
            self.loop,
            self._conductor,
            self._casts,
            self._caller,
            self,
        )
        self._build_cache(name)
        self._nic = monitor.NicMonitor(
            interval_s=settings.report_interval_s,
            device=settings.nic_device,
            bytes_per_s=settings.nic_bytes_per_s,
            data_address=settings.data_address,
        )
        self._link = shaping.LinkProtection(
            agent_settings.data_share(settings),
            data_address=settings.data_address,
            device=settings.nic_device,
            reading=lambda: self._nic.reading,
            remove_at_stop=settings.data_share_remove_at_stop,
        )

    def _build_cache(self, name: str) -> None:
        settings = self._settings
        self._cache = cache.Cache(
            pathlib.Path(settings.state_path) / CACHE_NAME,
            settings.bitstream_source,
            max_bytes=settings.bitstream_cache_bytes,
            timeout_s=settings.bitstream_fetch_timeout_s,
        )
        # Threads of its own: a file takes long, and others must not wait.
        self._fetch_caller = sender.Caller(self.loop, f"{name}-bitstreams")
        self._fetcher = fetching.Fetcher(self._fetch_caller, self._cache)

    def _start_parts(self) -> None:
        if self._devices:
            self._load_cache()
            self._fetch_caller.start()
        self.loop.start()
        self._casts.start()
        self._caller.start()
        self._nic.start()
        self._link.start()
        self.loop.run_and_wait(
            lambda: self.workers.start(self.table.slot_keys()), START_TIMEOUT_S
        )
        self._settle()
        self.loop.run_and_wait(self._serve, START_TIMEOUT_S)
        self._server = self._make_server(self.manager)
        self._server.start()

    def _load_cache(self) -> None:
        try:
            self._cache.load()
        except OSError as error:
            raise AgentError(f"cache of bitstreams: {error}") from error

    def _settle(self) -> None:
        """Wait for the workers found running, else they look idle."""
        settled = threading.Event()
        give_up_s = self.loop.now() + SETTLE_TIMEOUT_S

        def check() -> None:
            if self.workers.settled() or self.loop.now() >= give_up_s:
                settled.set()
            else:
                self.loop.call_later(SETTLE_INTERVAL_S, check)

        self.loop.call(check)
        settled.wait(SETTLE_TIMEOUT_S + START_TIMEOUT_S)

    def _serve(self) -> None:
        self._front_door.start()
        self._serving = True
        self._tick()
        self._report()

    def _stop_parts(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server.wait()
        try:
            self.loop.run_and_wait(self._leave, STOP_TIMEOUT_S)
        except TimeoutError:
            LOG.error("The agent's loop does not end")
        self.loop.stop(STOP_TIMEOUT_S)
        self.workers.close(STOP_TIMEOUT_S)
        self._casts.stop(STOP_TIMEOUT_S)
        self._caller.stop(STOP_TIMEOUT_S)
        if self._devices:
            self._cache.stop()
            self._fetch_caller.stop(STOP_TIMEOUT_S)
        self._link.stop(STOP_TIMEOUT_S)
        self._nic.stop(STOP_TIMEOUT_S)

    def _leave(self) -> None:
        self._serving = False
        self._front_door.stop()

    # What the conductor asks; any thread.

    def assign(
        self, leader_epoch: int, request: objects.AssignRequest
    ) -> None:
        """Give a slot to a session; see :class:`manager.Commands`."""
        self._command(
            f"assign of {request.device}.{request.slot}, "
            f"generation {request.generation}",
            leader_epoch,
            lambda: self.table.assign(
                leader_epoch, request, self._clock.now()
            ),
        )

    def release(
        self,
        leader_epoch: int,
        device: str,
        slot: int,
        session_id: str,
        generation: int,
        reason: str,
    ) -> None:
        """Take a slot from a session; see :class:`manager.Commands`."""
        self._command(
            f"release of {device}.{slot}, generation {generation}",
            leader_epoch,
            lambda: self.table.release(
                leader_epoch,
                (device, slot),
                session_id,
                generation,
                reason,
                self._clock.now(),
            ),
        )

    def reissue_secret(
        self,
        leader_epoch: int,
        device: str,
        slot: int,
        session_id: str,
        generation: int,
    ) -> None:
        """Have a secret minted; see :class:`manager.Commands`."""
        self._command(
            f"new secret of {device}.{slot}, generation {generation}",
            leader_epoch,
            lambda: self.table.reissue_secret(
                leader_epoch, (device, slot), generation
            ),
        )

    def session_changed(
        self, leader_epoch: int, views: list[objects.SessionView]
    ) -> None:
        """Pass news of sessions on; see :class:`manager.Commands`."""

        def run() -> list[table.Effect]:
            if self.table.accept_epoch(leader_epoch):
                self._front_door.session_changed(views)
            return []

        self._command("news of sessions", leader_epoch, run)

    def report_now(self, leader_epoch: int) -> None:
        """Report at once; see :class:`manager.Commands`."""

        def run() -> list[table.Effect]:
            accepted = self.table.accept_epoch(leader_epoch)
            return [table.Changed()] if accepted else []

        self._command("request for a report", leader_epoch, run)

    def _command(
        self,
        what: str,
        leader_epoch: int,
        run: Callable[[], list[table.Effect]],
    ) -> None:
        def execute() -> None:
            before = collections.Counter(self.table.refusals)
            effects = run()
            for reason in self.table.refusals - before:
                LOG.warning(
                    "Refused: %s, epoch %d (%s)", what, leader_epoch, reason
                )
            if leader_epoch == self.table.leader_epoch:
                self._conductor.note_leader(leader_epoch)
            self._apply(effects)

        self.loop.call(execute)

    # What workers do; the loop's thread.

    def worker_connected(self, key: table.Key) -> None:
        """See :class:`workers.Handler`."""
        self._apply(self.table.worker_connected(key))

    def worker_status(
        self, key: table.Key, status: Mapping[str, typing.Any]
    ) -> None:
        """See :class:`workers.Handler`."""
        parsed = table.WorkerStatus.from_members(status)
        effects = self.table.worker_status(key, parsed, time.time())
        self._counts.note_status(key, parsed)
        self._note_result(key)
        self._apply(effects)

    def _note_result(self, key: table.Key) -> None:
        self._counts.note_result(key, self.table.last_result(key))

    def worker_prepared(
        self, key: table.Key, message: Mapping[str, typing.Any]
    ) -> None:
        """See :class:`workers.Handler`."""
        generation = int(message["generation"])
        self._counts.note_prepared(key, generation, self.loop.now())
        self._apply(
            self.table.worker_prepared(
                key,
                generation,
                str(message["secret"]),
                message.get("certificate_sha256"),
            )
        )

    def worker_refused(
        self, request: table.ToWorker, code: str, message: str
    ) -> None:
        """See :class:`workers.Handler`."""
        LOG.warning(
            "Worker of slot %s.%d refused %s: %s: %s",
            *request.key,
            request.operation,
            code,
            message,
        )
        if request.operation == "assign":
            self._apply(
                self.table.worker_refused(
                    request.key, request.generation, code, message, time.time()
                )
            )
            self._note_result(request.key)

    def worker_disconnected(self, key: table.Key) -> None:
        """See :class:`workers.Handler`."""
        self._apply(self.table.worker_disconnected(key))

    def worker_died(self, key: table.Key) -> None:
        """See :class:`workers.Handler`."""
        self._apply(self.table.worker_died(key, self._clock.now()))
        self._note_result(key)

    def worker_unstartable(self, key: table.Key, message: str) -> None:
        """See :class:`workers.Handler`."""
        self._apply(
            self.table.worker_unstartable(key, message, self._clock.now())
        )
        self._note_result(key)

    # What the front door asks; the loop's thread.

    def connect(
        self, project_id: str, session_id: str, generation: int
    ) -> socket.socket:
        """See :class:`frontdoor.Slots`."""
        found = self.table.find_session(session_id)
        if found is None or found[1].project_id != project_id:
            raise rules.RequestError(
                codes.SESSION_NOT_FOUND, "no slot of this host has the session"
            )
        key, holder = found
        if holder.generation != generation:
            raise rules.RequestError(
                codes.STALE_GENERATION,
                f"the session's generation is {holder.generation} here",
            )
        if holder.state not in table.CONNECTABLE:
            raise rules.RequestError(
                codes.SESSION_NOT_READY, "the slot is not ready yet"
            )
        return _connect(workers.data_path(self._settings.state_path, key))

    def sessions_in_use(self) -> Iterable[str]:
        """See :class:`frontdoor.Slots`."""
        in_use = {states.SLOT_ACTIVE, states.SLOT_DETACHED}
        holders = map(self.table.holder, self.table.slot_keys())
        return {
            holder.session_id
            for holder in holders
            if holder is not None and holder.state in in_use
        }

    # What follows; the loop's thread.

    def _apply(self, effects: Iterable[table.Effect]) -> None:
        # Whatever changes the table ends here.
        self._meter.note_holders(self.table.generations(), self.loop.now())
        for effect in effects:
            match effect:
                case table.ToWorker():
                    self._send_order(effect)
                case table.Fetch():
                    self._fetch(effect)
                case table.EndWorker(key, reason):
                    self.workers.end(key, reason)
                case table.SendPrepared(prepared):
                    self._send_prepared(prepared)
                case table.Changed():
                    self._report_soon()

    def _send_order(self, order: table.ToWorker) -> None:
        if order.operation == "assign":
            # Here, not when the file came: a key may have been withdrawn
            # while the worker made room.
            objection = self._trust.objection(order)
            if objection is not None:
                self._refuse(order, objection)
                return
            self._counts.note_assign(
                order.key,
                order.generation,
                str(order.members["accelerator"]),
                self.loop.now(),
                _bitstream_id(order),
            )
        self.workers.send(order)

    def _refuse(self, order: table.ToWorker, objection: str) -> None:
        """Do not program a slot with what this host does not trust."""
        self._untrusted_log.warning(
            "Slot %s.%d is not programmed with the bitstream %s, of %s: %s",
            *order.key,
            _bitstream_id(order) or order.members["bitstream"],
            order.members["accelerator"],
            objection,
        )
        self._apply(
            self.table.bitstream_failed(
                order.key,
                order.generation,
                objection,
                self._clock.now(),
                codes.BITSTREAM_UNTRUSTED,
            )
        )
        self._note_result(order.key)

    def _fetch(self, order: table.Fetch) -> None:
        """Bring a file here; the slot waits, nobody else does."""
        key, generation = order.key, order.generation
        # Before it is asked for, so that it cannot be removed meanwhile.
        self._cache.set_in_use(self.table.bitstreams_in_use())

        def ready(path: str) -> None:
            self._apply(self.table.bitstream_ready(key, generation, path))

        def failed(message: str) -> None:
            LOG.warning(
                "Bitstream %s cannot be had for slot %s.%d: %s",
                order.bitstream.bitstream_id,
                *key,
                message,
            )
            self._apply(
                self.table.bitstream_failed(
                    key, generation, message, self._clock.now()
                )
            )
            self._note_result(key)

        self._fetcher.fetch(order.bitstream, ready, failed, again=order.again)

    def _send_prepared(self, prepared: objects.Prepared) -> None:
        # It overtakes reports, on the way and in the threads of the other
        # side: the conductor must know which of them are older.
        prepared = dataclasses.replace(
            prepared, agent_boot_id=self._boot_id, sequence=self._sequence
        )
        self._casts.put_first(
            ("prepared", prepared.device, prepared.slot),
            lambda: self._conductor.prepared(prepared),
        )

    def _report_soon(self) -> None:
        """Have changes reported; at once if a slot has come free."""
        if not self._serving or self._report_pending:
            return
        busy = self._busy_count()
        if busy < self._most_busy:
            # One report for all that changes in this turn of the loop.
            self._report_pending = True
            self.loop.call(self._report)
            return
        self._most_busy = busy
        if not self._report_gathering:
            self._report_gathering = True
            self._schedule_report(REPORT_GATHER_S)

    def _busy_count(self) -> int:
        return sum(
            self.table.holder(key) is not None
            for key in self.table.slot_keys()
        )

    def _report(self) -> None:
        self._report_pending = self._report_gathering = False
        if not self._serving:
            return
        self._most_busy = self._busy_count()
        self._schedule_report(self._settings.report_interval_s)
        self._sequence += 1
        settings = self._settings
        reading = self._nic.reading
        now = self.loop.now()
        report = objects.AgentReport(
            host_uuid=settings.host_uuid,
            host_name=settings.host_name,
            agent_boot_id=self._boot_id,
            sequence=self._sequence,
            leader_epoch=self.table.leader_epoch,
            nic_bytes_per_s=reading.bytes_per_s,
            nic_rx_bytes=reading.rx_bytes,
            nic_tx_bytes=reading.tx_bytes,
            devices=self.table.device_reports(
                lambda key: self._meter.energy_j(key, now)
            ),
            driver=settings.driver_name,
            link_message=self._link.state.message,
            sent_at=time.time(),
        )
        self._casts.put_first("report", lambda: self._conductor.report(report))

    def _schedule_report(self, delay_s: float) -> None:
        if self._report_timer is not None:
            self._report_timer.cancel()
        self._report_timer = self.loop.call_later(delay_s, self._report)

    def _cast_failed(self, key: Hashable) -> None:
        """A report that was lost is repeated before the next is due."""
        if key == "report":
            retry_s = min(REPORT_RETRY_S, self._settings.report_interval_s)
            self.loop.call(lambda: self._report_again(retry_s))

    def _report_again(self, delay_s: float) -> None:
        # What is being gathered is due earlier.
        if not self._report_gathering:
            self._schedule_report(delay_s)

    def _tick(self) -> None:
        if not self._serving:
            return
        self.loop.call_later(TICK_S, self._tick)
        self._apply(self.table.tick(self._clock.now()))
        # Workers tell of changes by themselves, but not of every byte.
        self.workers.tick()
        self._check_health()

    def _check_health(self) -> None:
        if self._checking_health or not self._devices:
            return
        self._checking_health = True
        self._caller.submit(
            self._read_health, self._take_health, self._health_failed
        )

    def _read_health(self) -> dict[str, _Condition]:
        return {
            device.name: _Condition(
                self._driver.health(device.name),
                self._read_power_w(device.name),
            )
            for device in self._devices
        }

    def _read_power_w(self, device: str) -> float | None:
        try:
            return self._driver.telemetry(device).power_w
        except Exception as error:
            # What is wrong with a board is for its health to say, and a
            # sensor must not keep that from being asked.
            LOG.debug("Power of %s cannot be read: %s", device, error)
            return None

    def _take_health(self, conditions: Mapping[str, _Condition]) -> None:
        self._checking_health = False
        now = self.loop.now()
        for device, condition in conditions.items():
            self._meter.note_power(device, condition.power_w, now)
            found = condition.health
            fault = None if found.healthy else found.message or "not healthy"
            self._apply(self.table.device_health(device, fault))

    def _health_failed(self, error: Exception) -> None:
        self._checking_health = False
        LOG.warning("The driver cannot tell its boards' health: %s", error)


def make(settings: agent_settings.AgentSettings) -> Agent:
    """Return an agent that counts all it does; RPC must have been set up.

    :param settings: its settings.
    """
    counts = agent_metrics.Counts()
    return Agent(
        settings,
        conductor_api.ConductorAPI(watch=counts.rpc.note, keys=settings.keys),
        counts=counts,
    )


def _checked(
    devices: tuple[drivers.DeviceInfo, ...],
) -> tuple[drivers.DeviceInfo, ...]:
    """Return devices whose names can be part of those of files.

    :raises AgentError: if one of them cannot.
    """
    for device in devices:
        if not device.name or "/" in device.name or "\0" in device.name:
            raise AgentError(
                f"the driver names a device {device.name!r:.80}: sockets of "
                "workers have that in their names, so that it must not be "
                "empty or have a slash or a zero"
            )
    return devices


def _bitstream_id(order: table.ToWorker) -> str | None:
    reference = order.members.get("bitstream_ref")
    if not isinstance(reference, dict):
        return None
    return str(reference["bitstream_id"])


def _rpc_server(
    host_uuid: str,
    keys: signing.Keys | None,
    endpoint: manager.AgentManager,
) -> RpcServer:
    return rpc.get_server(agent_api.TOPIC, host_uuid, [endpoint], keys=keys)


def _connect(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        sock.connect(path)
    except OSError as error:
        sock.close()
        raise rules.RequestError(
            codes.WORKER_LOST, "the slot's worker takes no connections"
        ) from error
    # The client gets the same open file description.
    sock.setblocking(True)
    return sock
