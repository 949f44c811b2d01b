# SPDX-License-Identifier: Apache-2.0

"""An agent of a host whose threads are those of many hosts."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import time
from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Mapping
from typing import Any

from fpgapool import objects
from fpgapool.agent import loop as agent_loop
from fpgapool.agent import manager
from fpgapool.agent import reports
from fpgapool.agent import sender
from fpgapool.agent import settings as agent_settings
from fpgapool.agent.door import opens
from fpgapool.agent.door import sessions
from fpgapool.agent.slots import orders
from fpgapool.agent.slots import table
from fpgapool.common.messaging import rpc
from fpgapool.drivers import base as drivers
from fpgapool.rpcapi import conductor as conductor_api
from tests.scale import workers
from tests.services import process

_BOARD_SLOTS = 8
_SHAPE = "medium"
_DMA_BYTES_PER_S = 2.1e9
_NIC_BYTES_PER_S = 1.25e9


@dataclasses.dataclass(frozen=True)
class Shared:
    """What the hosts of a process share.

    :ivar casting: its only thread sends casts, so that they stay in order.
    :ivar port: where clients of other processes find this one's workers.
    :ivar places: where sessions are in this process.
    :ivar report_interval_s: time between two reports of a host.
    :ivar watch: is told of each message to the conductor.
    :ivar push: takes the number of a client and its session's view.
    """

    loop: agent_loop.Loop
    casting: concurrent.futures.Executor
    caller: sender.Caller
    opener: sender.Caller
    port: int
    places: workers.Places
    report_interval_s: float
    watch: rpc.Watch
    push: Callable[[int, objects.SessionView], None]


class _Casts(sender.Sender):
    """The casts of a host, without a thread of its own."""

    def __init__(self, shared: Shared, *arguments: Any) -> None:
        super().__init__("casts", *arguments)
        self._casting = shared.casting
        self.is_away = False

    def put(
        self,
        key: Hashable,
        cast: Callable[[], object],
        *,
        lane: Hashable = None,
    ) -> None:
        super().put(key, cast, lane=lane)
        self._casting.submit(self._drain)

    def put_first(self, key: Hashable, cast: Callable[[], object]) -> None:
        super().put_first(key, cast)
        self._casting.submit(self._drain)

    def _drain(self) -> None:
        with self._condition:
            batch = self._take()
        if batch and not self.is_away:
            self._send(batch)


class Door(sessions.Sessions):
    """A front door; several may ask for sessions in one call.

    :cvar together: takes the requests in place of the door's own calls, and
        the door; None if each door calls for itself.
    """

    together: Callable[[Door, objects.OpenRequest], None] | None = None

    def _execute(self, effect: opens.Effect) -> None:
        if isinstance(effect, objects.OpenRequest) and Door.together:
            Door.together(self, effect)
        else:
            super()._execute(effect)

    def answered(
        self, request: objects.OpenRequest, view: objects.SessionView | None
    ) -> None:
        """Take the answer to a request that went with others."""
        self.changed([view] if view else [])
        self._opens.call_ended(request, self.loop.now())

    def wake(self) -> None:
        """Go on after a pause."""
        self._apply(())


class Host:
    """A host; everything but :meth:`heard` runs in the loop's thread.

    :ivar is_away: whether nothing reaches it and nothing comes from it.
    :ivar epoch_s: when it heard of its leader first, by the leader's epoch.
    :ivar assigned_s: when it got the first order of a leader for a slot.
    """

    def __init__(self, number: int, slots: int, shared: Shared) -> None:
        self.uuid = f"{number:08x}-0000-4000-8000-5ca1e0000000"
        self.name = f"scale-{number:05d}"
        self._loop = shared.loop
        self.is_away = False
        self.epoch_s: dict[int, float] = {}
        self.assigned_s: dict[int, float] = {}
        self.settings = agent_settings.AgentSettings(
            host_uuid=self.uuid,
            host_name=self.name,
            state_path="/nonexistent",
            driver_name="emulator",
            driver_path="",
            data_address=process.LOOPBACK,
            report_interval_s=shared.report_interval_s,
        )
        self.table = table.SlotTable(
            agent_settings.host_facts(self.settings), devices(slots)
        )
        self._conductor = conductor_api.ConductorAPI(watch=shared.watch)
        self._casts = _Casts(
            shared, self._conductor.together, lambda key: self._failed(key)
        )
        self.workers = workers.Workers(
            shared.port, shared.places, self.name, self._happened
        )
        self.door = Door(
            self.settings,
            shared.loop,
            self._conductor,
            self._casts,
            shared.caller,
            shared.opener,
            shared.push,
            lambda: not self.is_away,
        )
        self.manager = manager.AgentManager(self._command, self.door.changed)
        self._new_reporter()

    def _new_reporter(self) -> None:
        self._reporter = reports.Reporter(
            self._loop,
            self._conductor,
            self._casts,
            self.settings.report_interval_s,
            self._make_report,
        )

    def start(self) -> None:
        """Start the workers and report."""
        for key in self.table.slot_keys():
            self.workers.start(key)
        self._reporter.start()

    def leave(self) -> None:
        """Fall silent; clients stay connected to workers."""
        self.is_away = self._casts.is_away = True
        self._reporter.stop()

    def come_back(self) -> None:
        """Speak again, as a new process of the agent."""
        self.is_away = self._casts.is_away = False
        self._new_reporter()
        self._take_standing()
        self._reporter.start()
        self.door.wake()

    def heard(self, method: str, arguments: Mapping[str, Any]) -> None:
        """Take a message of the conductor, in any thread."""
        if not self.is_away:
            getattr(self.manager, method)(None, **arguments)

    def _failed(self, key: Hashable) -> None:
        self._reporter.failed(key)

    def _command(
        self,
        _what: str,
        change: table.Change,
        leader_epoch: int,
        *arguments: object,
    ) -> None:
        heard_s = time.monotonic()

        def execute() -> None:
            self.epoch_s.setdefault(leader_epoch, heard_s)
            if change is table.SlotTable.assign:
                self.assigned_s.setdefault(leader_epoch, heard_s)
            effects = change(self.table, leader_epoch, *arguments, time.time())
            if leader_epoch == self.table.leader_epoch:
                self._conductor.address_leader(leader_epoch)
            self._carry_out(effects)

        self._loop.call(execute)

    def _happened(
        self, key: orders.Key, event: table.Change, *arguments: object
    ) -> None:
        self._carry_out(event(self.table, key, *arguments, time.time()))

    def _carry_out(self, effects: list[orders.Effect]) -> None:
        if effects:
            self._take_standing()
        for effect in effects:
            match effect:
                case orders.ToWorker():
                    self.workers.take(effect)
                case objects.Prepared():
                    self._reporter.prepared(effect)
                case orders.Changed():
                    self._reporter.soon()

    def _take_standing(self) -> None:
        self._reporter.busy = len(self.table.standing().generations)

    def _make_report(self, **members: Any) -> objects.AgentReport:
        self.workers.move()
        return objects.AgentReport(
            host_uuid=self.uuid,
            host_name=self.name,
            leader_epoch=self.table.leader_epoch,
            nic_bytes_per_s=_NIC_BYTES_PER_S,
            devices=self.table.device_reports(
                lambda _key: None, self._loop.now()
            ),
            driver="emulator",
            chunk_bytes=self.settings.chunk_bytes,
            sessions=self.door.to_report(),
            **members,
        )


def devices(slots: int) -> list[drivers.DeviceInfo]:
    """Return boards with so many slots."""
    return [
        drivers.DeviceInfo(
            name=f"board{first // _BOARD_SLOTS}",
            model="emulated",
            dma_bytes_per_s=_DMA_BYTES_PER_S,
            programming_time_s=0.0,
            slots=tuple(
                drivers.SlotInfo(number, _SHAPE, None)
                for number in range(min(_BOARD_SLOTS, slots - first))
            ),
        )
        for first in range(0, slots, _BOARD_SLOTS)
    ]
