# SPDX-License-Identifier: Apache-2.0

"""The agent of one host: creates, starts and stops its parts.

Nothing here is global to the process: one process can contain several agents,
each with its own host identity and state directory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import threading
import typing
from collections.abc import Iterable

from oslo_log import log as logging

from fpgapool import objects
from fpgapool import version
from fpgapool.agent import loop as agent_loop
from fpgapool.agent import manager
from fpgapool.agent import metrics as agent_metrics
from fpgapool.agent import reports
from fpgapool.agent import sender
from fpgapool.agent import settings as agent_settings
from fpgapool.agent.bitstreams import cache
from fpgapool.agent.bitstreams import fetching
from fpgapool.agent.bitstreams import trust
from fpgapool.agent.child import process
from fpgapool.agent.child import room
from fpgapool.agent.door import frontdoor
from fpgapool.agent.door import slots
from fpgapool.agent.door import stages
from fpgapool.agent.host import boards
from fpgapool.agent.host import monitor
from fpgapool.agent.host import shaping
from fpgapool.agent.slots import orders
from fpgapool.agent.slots import table
from fpgapool.agent.slots import traces
from fpgapool.agent.supervision import cgroups
from fpgapool.agent.supervision import desks
from fpgapool.agent.supervision import forks
from fpgapool.agent.supervision import processes
from fpgapool.agent.supervision import workers
from fpgapool.common import clock
from fpgapool.common.channels import channel
from fpgapool.common.messaging import context
from fpgapool.common.messaging import rpc
from fpgapool.common.monitoring import metrics
from fpgapool.common.monitoring import ratelimit
from fpgapool.drivers import base as drivers
from fpgapool.drivers import loader
from fpgapool.rpcapi import agent as agent_api
from fpgapool.rpcapi import conductor as conductor_api
from fpgapool.vocabulary import carriers
from fpgapool.vocabulary import codes

LOG = logging.getLogger(__name__)

TICK_S = boards.CHECK_S
#: Maximum time for which the first report waits for workers' status.
SETTLE_TIMEOUT_S = 5.0
SETTLE_INTERVAL_S = 0.02

#: Time in which a worker must release its slot, in addition to the time for
#: programming, which must end first.
RELEASE_TIMEOUT_S = 10.0

#: Time for which a member waits for a connection to its group's desk.
DESK_TIMEOUT_S = 60.0

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 5.0

#: Time in which a scrape must be answered, before the scraper times out.
METRICS_TIMEOUT_S = 2.0

LOCK_NAME = "agent.lock"
CACHE_NAME = "bitstream-cache"


class AgentError(Exception):
    """The agent cannot start."""


class Agent:
    """The agent of one host.

    :param counts: the object that counts events; ``conductor`` may share it.
    :ivar faults: each device's fault by its name; None for a healthy device.
    :ivar not_isolated: what keeps workers and desks from being isolated.
    """

    def __init__(
        self,
        settings: agent_settings.AgentSettings,
        conductor: conductor_api.ConductorAPI,
        *,
        counts: agent_metrics.Counts | None = None,
    ) -> None:
        self._counts = counts or agent_metrics.Counts()
        self._settings = settings
        self._conductor = conductor
        self._clock = clock.WallClock()
        self._trust = trust.Trust(
            settings.trusted_keys, settings.signature_required
        )
        # Each session with an untrusted bitstream would cause a log line.
        self._untrusted_log = ratelimit.RateLimitedLog(__name__)
        self._traces = traces.Traces()
        self.faults: dict[str, str | None] = {}
        self.not_isolated: list[str] = []
        self._server: typing.Any = None
        self._started = self._serving = False
        self._stop_lock = threading.Lock()
        self._lock_fd: int | None = None
        self._name = f"agent-{settings.host_name}"
        self.loop = agent_loop.Loop(self._name)
        try:
            self._lock_fd = _lock_state_dir(settings.state_path)
            self._build_slots()
            self._build_messages()
            self._build_parts()
            self.manager = manager.AgentManager(
                self._command, self._front_door.session_changed
            )
        except BaseException:
            self.stop()
            raise

    # Life cycle.

    def start(self) -> None:
        """Adopt running workers, start the missing ones, and serve.

        :raises: AgentError or doorway.FrontDoorError.
        """
        try:
            if self._devices:
                self._check_isolation()
            self._started = True
            self._start_parts()
        except BaseException:
            self.stop()
            raise
        LOG.info(
            "The agent of host %s (%s) serves %d slots",
            self._settings.host_name,
            self._settings.host_uuid,
            len(self.table.slot_keys()),
        )

    def stop(self) -> None:
        """Stop serving; sessions continue if workers outlive the agent.

        This may be called repeatedly, or before :meth:`start`.
        """
        with self._stop_lock:
            if self._started:
                self._started = False
                self._stop_parts()
            else:
                self.loop.stop(STOP_TIMEOUT_S)
            self._unlock()

    def fill(self, page: metrics.Page) -> None:
        """Fill in the metrics; any thread may call this."""
        host = self._settings.host_name
        page.fill(agent_metrics.EVENTS, self._counts, host)
        if not self._serving:
            page.fill(agent_metrics.ALWAYS, None, host, known=False)
            return
        more = {
            "dropped": self._casts.dropped,
            "problems": len(self.not_isolated),
        }
        page.fill(agent_metrics.AGENT, self, host, **more)
        page.fill(agent_metrics.NIC, self._nic.reading, host)
        page.fill(agent_metrics.CACHE, self._cache.counts, host)
        found: list[objects.DeviceReport] = []
        groups: list[desks.Figures] = []

        def look() -> None:
            found.extend(self.table.device_reports())
            groups.extend(self.desks.figures())

        try:
            self.loop.run_and_wait(look, METRICS_TIMEOUT_S)
        except TimeoutError:
            page.fill(agent_metrics.ALWAYS, None, host, known=False)
            return
        page.fill(agent_metrics.ALWAYS, None, host, known=True)
        agent_metrics.fill_devices(page, host, found)
        for one in groups:
            page.fill(agent_metrics.GROUPS, one, host, one.group_id)

    def figures(self) -> dict[str, typing.Any]:
        """Return the host in a few numbers, without waiting for anything."""
        return {
            "host": self._settings.host_name,
            "leader_epoch": self.table.leader_epoch,
            "slots": {
                f"{device}.{number}": self.table.slot((device, number)).state
                for device, number in self.table.slot_keys()
            },
            "clients": self._front_door.client_count,
            "not_isolated": len(self.not_isolated),
        }

    def _unlock(self) -> None:
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def _build_slots(self) -> None:
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
        #: Only the loop's thread uses it.
        self.table = table.SlotTable(
            agent_settings.host_facts(settings),
            self._devices,
            release_timeout_s=RELEASE_TIMEOUT_S + 2 * programming_s,
        )
        _check_socket_paths(settings.state_path, self.table.slot_keys())

    def _build_messages(self) -> None:
        name = self._name
        self._casts = sender.Sender(
            f"{name}-sender",
            self._conductor.together,
            lambda key: self._reporter.failed(key),
        )
        self._reporter = reports.Reporter(
            self.loop,
            self._conductor,
            self._casts,
            self._settings.report_interval_s,
            self._make_report,
        )
        self._caller = sender.Caller(self.loop, f"{name}-caller")
        self._opener = sender.Caller(
            self.loop, f"{name}-opener", sender.OPENING_THREADS
        )
        # Fetches have their own threads, because they take a long time and
        # must not delay other calls.
        self._fetch_caller = sender.Caller(self.loop, f"{name}-bitstreams")
        # So do connections to other hosts, which may not answer.
        self._stage_caller = sender.Caller(self.loop, f"{name}-stages")

    def _build_parts(self) -> None:
        settings = self._settings
        self._boards = boards.Boards(
            self._driver,
            self._devices,
            self.loop,
            self._caller,
            self._take_health,
        )
        self._fork_server = forks.ForkServer(
            self.loop,
            {
                processes.WORKER_MODULE: workers.warm_up_with(settings),
                processes.DESK_MODULE: {},
            },
        )
        self.cgroups = cgroups.Cgroups(settings.host_uuid)
        self.desks = desks.Desks(
            settings,
            self.loop,
            self.table.slot_keys(),
            self._happened,
            self._reporter.soon,
            self._fork_server,
            self.cgroups,
        )
        host_slots = slots.HostSlots(settings, self.table, self.desks)
        self.workers = workers.Workers(
            settings,
            self.loop,
            self._counts,
            self._happened,
            self.desks.dial_for,
            stages.NextStages(
                settings.host_uuid,
                host_slots,
                self._conductor,
                self._stage_caller,
            ).connect,
            self._fork_server,
            self.cgroups,
        )
        self._front_door = frontdoor.FrontDoor(
            settings,
            self.loop,
            self._conductor,
            self._casts,
            self._caller,
            self._opener,
            host_slots,
        )
        self._cache = cache.BitstreamCache(
            pathlib.Path(settings.state_path) / CACHE_NAME,
            settings.bitstream_source,
            max_bytes=settings.bitstream_cache_bytes,
            timeout_s=settings.bitstream_fetch_timeout_s,
        )
        self._fetcher = fetching.Fetcher(self._fetch_caller, self._cache)
        self._build_network_parts()

    def _build_network_parts(self) -> None:
        settings = self._settings
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

    def _start_parts(self) -> None:
        if self._devices:
            self._fork_server.launch()
            self._load_cache()
            self._fetch_caller.start()
            self._stage_caller.start()
        self.loop.start()
        self._casts.start()
        self._caller.start()
        self._opener.start()
        self._nic.start()
        self._link.start()
        self.loop.run_and_wait(self._start_processes, START_TIMEOUT_S)
        # Check the boards while the processes start.
        found = self._boards.try_all()
        self._settle()
        self.loop.run_and_wait(lambda: self._serve(found), START_TIMEOUT_S)
        self._server = self._make_server()
        self._server.start()

    def _check_isolation(self) -> None:
        isolation = self._settings.isolation
        # The fork server, which is started later, is in the agent's.
        self.cgroups.start()
        self.not_isolated = [
            *room.missing(isolation),
            *self.cgroups.missing(),
        ]
        for problem in self.not_isolated:
            LOG.warning("%s", problem)
        if self.not_isolated and isolation == room.REQUIRED:
            raise AgentError(
                "[agent] isolation is required, but this machine lacks it: "
                + "; ".join(self.not_isolated)
            )

    def _start_processes(self) -> None:
        self.workers.start(self._devices)
        self.desks.start()

    def _make_server(self) -> typing.Any:
        settings = self._settings
        return rpc.get_server(
            agent_api.TOPIC,
            settings.host_uuid,
            [self.manager],
            keys=settings.keys,
        )

    def _load_cache(self) -> None:
        try:
            self._cache.load()
        except OSError as error:
            raise AgentError(
                f"cannot load the bitstream cache: {error}"
            ) from error

    def _settle(self) -> None:
        """Wait until running processes have reported their status."""
        settled = threading.Event()
        give_up_s = self.loop.now() + SETTLE_TIMEOUT_S

        def check() -> None:
            settled_now = self.workers.settled() and self.desks.settled()
            if settled_now or self.loop.now() >= give_up_s:
                settled.set()
            else:
                self.loop.call_later(SETTLE_INTERVAL_S, check)

        self.loop.call(check)
        settled.wait(SETTLE_TIMEOUT_S + START_TIMEOUT_S)

    def _serve(self, found: dict[str, str | None]) -> None:
        for device, fault in found.items():
            self._take_health(device, fault)
        self._front_door.start()
        self._serving = True
        self._tick()
        self._reporter.start()

    def _stop_parts(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server.wait()
        try:
            self.loop.run_and_wait(self._leave, STOP_TIMEOUT_S)
        except TimeoutError:
            LOG.error("The agent's event loop does not respond")
        self.loop.stop(STOP_TIMEOUT_S)
        self.workers.close(STOP_TIMEOUT_S)
        self.desks.close(STOP_TIMEOUT_S)
        self._fork_server.close(STOP_TIMEOUT_S)
        self._casts.stop(STOP_TIMEOUT_S)
        self._caller.stop(STOP_TIMEOUT_S)
        self._opener.stop(STOP_TIMEOUT_S)
        if self._devices:
            self._cache.stop()
            self._fetch_caller.stop(STOP_TIMEOUT_S)
            self._stage_caller.stop(STOP_TIMEOUT_S)
        self._link.stop(STOP_TIMEOUT_S)
        self._nic.stop(STOP_TIMEOUT_S)

    def _leave(self) -> None:
        self._serving = False
        self._reporter.stop()
        self._front_door.stop()

    # Commands from the conductor, in any thread.

    def _command(
        self,
        what: str,
        change: table.Change,
        leader_epoch: int,
        *arguments: object,
    ) -> None:

        def execute() -> None:
            refusals = self.table.refusals
            before = dict(refusals)
            effects = change(
                self.table, leader_epoch, *arguments, self._clock.now()
            )
            for reason, count in refusals.items():
                if count != before.get(reason):
                    LOG.warning(
                        "Refused an order: %s, epoch %d (%s)",
                        what,
                        leader_epoch,
                        reason,
                    )
            if leader_epoch == self.table.leader_epoch:
                self._conductor.address_leader(leader_epoch)
            self._apply(effects)

        self.loop.call(execute)

    # Events of slots, in the loop's thread.

    def _happened(
        self, key: orders.Key, event: table.Change, *arguments: object
    ) -> None:
        slot = self.table.slot(key)
        before = slot.standing()
        effects = event(self.table, key, *arguments, self._clock.now())
        for result in (slot.previous_result, slot.last_result):
            if self._counts.count_result(key, result) and result is not None:
                self._traces.ended(key, result, slot.status, self._clock.now())
                self._tell_end(key, result)
        if event is table.SlotTable.worker_prepared:
            generation = typing.cast(int, arguments[0])
            self._traces.prepared(key, generation, self._clock.now())
        if slot.standing() != before:
            self._take_standing()
        self._carry_out(effects)

    def _about(
        self, key: orders.Key, generation: int
    ) -> contextlib.AbstractContextManager[None]:
        """Make the log lines of a block show an assignment's request."""
        request = self.table.slot(key).request
        if request is None or request.generation != generation:
            # An earlier agent process received it.
            return contextlib.nullcontext()
        return context.serving(
            carriers.request_id(request.request_id),
            carriers.valid(request.carrier),
        )

    def _tell_end(
        self, key: orders.Key, result: objects.SessionResult
    ) -> None:
        if result.code not in codes.AS_WANTED:
            with self._about(key, result.generation):
                LOG.info(
                    "Slot %s.%d: session %s is %s: %s",
                    *key,
                    result.session_id,
                    result.state,
                    result.code,
                )

    # Effects, in the loop's thread.

    def _apply(self, effects: list[orders.Effect]) -> None:
        if effects:
            self._take_standing()
            self._carry_out(effects)

    def _take_standing(self) -> None:
        """Update the parts that depend on the slots' holders."""
        generations, members, unreported = self.table.standing()
        self._reporter.busy = len(generations)
        self._boards.set_holders(generations)
        self.desks.set_members(members, unreported)

    def _carry_out(self, effects: Iterable[orders.Effect]) -> None:
        for effect in effects:
            match effect:
                case orders.ToWorker():
                    self._send_order(effect)
                case orders.Fetch():
                    self._fetch(effect)
                case orders.EndWorker(key, reason):
                    self.workers.end(key, reason)
                case objects.Prepared():
                    self._reporter.prepared(effect)
                case orders.KeepGroup(epoch, order):
                    self.desks.keep(epoch, order)
                case orders.Changed(at_once):
                    self._reporter.soon(at_once=at_once)

    def _send_order(self, order: orders.ToWorker) -> None:
        if order.operation == "assign":
            # Check the bitstream now, not when its file arrives: a key may
            # have been revoked since.
            objection = self._trust.objection(order)
            if objection is not None:
                self._refuse(order, objection)
                return
            request = self.table.slot(order.key).request
            if request is not None:
                self._traces.ordered(order.key, request, self._clock.now())
            self._counts.count_assign(
                order.key,
                order.generation,
                str(order.members["accelerator"]),
                self.loop.now(),
                _bitstream_id(order),
            )
            if order.members["group_id"]:
                members = {
                    **order.members,
                    "connect_timeout_s": DESK_TIMEOUT_S,
                    "resume_grace_s": DESK_TIMEOUT_S,
                }
                order = dataclasses.replace(order, members=members)
        self.workers.send(order)

    def _refuse(self, order: orders.ToWorker, objection: str) -> None:
        """Refuse to program a slot with an untrusted bitstream."""
        with self._about(order.key, order.generation):
            self._untrusted_log.warning(
                "Refused to program slot %s.%d with bitstream %s for %s: %s",
                *order.key,
                _bitstream_id(order) or order.members["bitstream"],
                order.members["accelerator"],
                objection,
            )
        self._happened(
            order.key,
            table.SlotTable.bitstream_failed,
            order.generation,
            codes.BITSTREAM_UNTRUSTED,
            objection,
        )

    def _fetch(self, order: orders.Fetch) -> None:
        """Fetch a file; only its slot waits for it."""
        key, generation = order.key, order.generation
        # Protect the file from eviction even before it is fetched.
        self._cache.set_in_use(self.table.bitstreams_in_use())

        def ready(path: str) -> None:
            self._happened(
                key, table.SlotTable.bitstream_ready, generation, path
            )

        def failed(message: str) -> None:
            with self._about(key, generation):
                LOG.warning(
                    "Bitstream %s is unavailable for slot %s.%d: %s",
                    order.bitstream.bitstream_id,
                    *key,
                    message,
                )
            self._happened(
                key,
                table.SlotTable.bitstream_failed,
                generation,
                codes.BITSTREAM_UNAVAILABLE,
                message,
            )

        self._fetcher.fetch(order.bitstream, ready, failed, again=order.again)

    def _make_report(self, **members: typing.Any) -> objects.AgentReport:
        settings = self._settings
        reading = self._nic.reading
        now = self.loop.now()
        return objects.AgentReport(
            host_uuid=settings.host_uuid,
            host_name=settings.host_name,
            leader_epoch=self.table.leader_epoch,
            nic_bytes_per_s=reading.bytes_per_s,
            nic_rx_bytes=reading.rx_bytes,
            nic_tx_bytes=reading.tx_bytes,
            devices=self.table.device_reports(
                lambda key: self._boards.meter.energy_j(key, now), now
            ),
            driver=settings.driver_name,
            link_message=self._link.state.message,
            isolation_message="; ".join(self.not_isolated) or None,
            groups=self.desks.reports(),
            power_cap_w=self._boards.power_cap_w,
            chunk_bytes=settings.chunk_bytes,
            sessions=self._front_door.to_report(),
            agent_version=version.version_string(),
            **members,
        )

    def _tick(self) -> None:
        if not self._serving:
            return
        self.loop.call_later(TICK_S, self._tick)
        effects = self.table.tick(self._clock.now())
        self._take_standing()
        self._carry_out(effects)
        # Workers report most changes unasked, but not their byte counts.
        self.workers.tick()
        self.desks.tick()
        self._boards.check()

    def _take_health(self, device: str, fault: str | None) -> None:
        self.faults[device] = fault
        changes = self.table.device_health(device, fault)
        if changes and fault is not None:
            LOG.error("Device %s cannot be used: %s", device, fault)
        elif changes:
            LOG.info("Device %s has recovered", device)
        self._apply(changes)


def make(settings: agent_settings.AgentSettings) -> Agent:
    """Return an agent; RPC must already be set up."""
    counts = agent_metrics.Counts()
    return Agent(
        settings,
        conductor_api.ConductorAPI(watch=counts.rpc.note, keys=settings.keys),
        counts=counts,
    )


def _lock_state_dir(state_path: str) -> int:
    """Lock the state directory and return the lock's file descriptor."""
    path = pathlib.Path(state_path)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
        return process.lock(str(path / LOCK_NAME))
    except OSError as error:
        raise AgentError(f"cannot use state_path {path}: {error}") from error
    except process.Taken:
        raise AgentError(
            f"cannot use state_path {path}: another agent is using it"
        ) from None


def _check_socket_paths(state_path: str, keys: Iterable[orders.Key]) -> None:
    """Refuse a path that is too long for the sockets in the directory.

    Workers and desks would be restarted forever while clients wait.
    """
    state_dir = os.path.abspath(state_path)
    paths = [
        desks.longest_path(state_dir),
        *(workers.data_path(state_dir, key) for key in keys),
    ]
    longest = max(paths, key=lambda path: len(os.fsencode(path)))
    excess_bytes = len(os.fsencode(longest)) - channel.MAX_UNIX_PATH_BYTES
    if excess_bytes > 0:
        raise AgentError(
            f"state_path {state_dir} is too long: the socket {longest} would "
            f"exceed the limit for paths; use a path that is at least"
            f" {excess_bytes} bytes shorter"
        )


def _checked(
    devices: tuple[drivers.DeviceInfo, ...],
) -> tuple[drivers.DeviceInfo, ...]:
    """Return the devices if their names can be part of file names."""
    for device in devices:
        if not device.name or "/" in device.name or "\0" in device.name:
            raise AgentError(
                f"the driver reports a device named {device.name!r:.80}; the "
                "name must not be empty or contain a slash or NUL, because it "
                "becomes part of socket names"
            )
    return devices


def _bitstream_id(order: orders.ToWorker) -> str | None:
    reference = order.members.get("bitstream_ref")
    if not isinstance(reference, dict):
        return None
    return str(reference["bitstream_id"])
