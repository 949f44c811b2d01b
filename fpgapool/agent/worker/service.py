# SPDX-License-Identifier: Apache-2.0

"""The worker: carries out the state machine's decisions. The main thread owns
the machine and handles events one by one. Programming, scrubbing and
connections block, so they run in separate threads, which only post events.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
import os
import queue
import time
import typing
from collections.abc import Callable

from fpgapool.agent.child import control
from fpgapool.agent.child import crew
from fpgapool.agent.child import memory
from fpgapool.agent.child import port
from fpgapool.agent.child import process
from fpgapool.agent.child import room as rooms
from fpgapool.agent.child import sockets
from fpgapool.agent.worker import desk as desks
from fpgapool.agent.worker import hello as hellos
from fpgapool.agent.worker import orders
from fpgapool.agent.worker import reach
from fpgapool.agent.worker import settings as worker_settings
from fpgapool.agent.worker import state
from fpgapool.agent.worker import tasks
from fpgapool.agent.worker.data import blocks
from fpgapool.agent.worker.data import memory as memories
from fpgapool.common.channels import buffers
from fpgapool.common.channels import channel as channels
from fpgapool.drivers import base as drivers
from fpgapool.drivers import loader
from fpgapool.drivers import selftest
from fpgapool.protocol import messages
from fpgapool.vocabulary import carriers
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import fields

LOG = logging.getLogger(__name__)

# Drivers' error codes that results contain; other codes become PROGRAM_FAILED.
_TOLD_CODES = codes.BITSTREAM_FAULTS | {codes.SELF_TEST_FAILED}

#: Exit status of a worker whose core hangs.
EXIT_CORE_HANGS = 4

# A change of status is reported after this time, together with later changes:
# a slot may be ready, and a session may end, within milliseconds.
_GATHER_S = 0.01


#: Work for the main thread.
_Call: typing.TypeAlias = Callable[[], None]


class Worker:
    """One slot's process.

    :raises process.Taken: if another worker already runs the slot.
    """

    def __init__(self, settings: worker_settings.WorkerSettings) -> None:
        self._settings = settings
        self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._newest = control.Newest(
            self._calls.put, self._obey, self._agent_came, self._agent_went
        )
        self._quit_reason: str | None = None
        # Buffers to pass to an agent.
        self._unread: list[memories.Unread] = []
        # Time by which the core must have stopped after its session.
        self._clear_due_s = math.inf
        # When to report a changed status to the agent.
        self._tell_due_s = math.inf
        self._programming: dict[str, object] | None = None
        self._lock_fd = process.claim(
            settings.control_socket, settings.data_socket
        )
        self._driver = loader.load_driver_path(
            settings.driver,
            {"state_dir": settings.state_dir, **settings.driver_settings},
        )
        self._driver.start_helper(settings.device, settings.slot)
        self._machine = state.Machine(
            time.monotonic(),
            orphan_s=settings.orphan_s,
            exit_with_agent=settings.exit_with_agent,
        )
        self._cache = blocks.BlockCache(settings.block_cache_bytes)
        self._reach = reach.Reach(lambda: self._calls.put(self._ask_for_next))
        self._desk = desks.SessionServer(
            settings, self._driver, self.post, self._cache, self._reach
        )
        self._member = tasks.Member(
            settings,
            self._driver,
            self.post,
            self._cache,
            lambda: self._calls.put(self._ask_for_desk),
        )
        self._sockets = sockets.Sockets(
            settings,
            self._newest,
            self._desk.serve,
            hellos.parse,
            self._desk,
        )

    @property
    def room(self) -> rooms.Room:
        settings = self._settings
        needs = self._driver.needs(settings.device, settings.slot)
        return rooms.Room(
            readable=(*needs.readable, settings.own_dir),
            writable=needs.writable,
            devices=needs.devices,
            calls=needs.calls,
            shared_bytes=settings.window_bytes,
        )

    def post(self, event: state.Event | memories.Unread) -> None:
        """Pass an event to the main thread; any thread may call this."""
        if isinstance(event, memories.Unread):
            self._calls.put(functools.partial(self._keep_unread, event))
        else:
            self._calls.put(functools.partial(self._decide, event))

    def exit(self, reason: str) -> None:
        """End the process; may be called from any thread."""
        self.post(state.Exit(reason))

    def run(self) -> None:
        """Handle events until the machine ends the process."""
        self._sockets.serve()
        LOG.info(
            "worker %s serves slot %d of %s, data port %s",
            self._settings.worker_id,
            self._settings.slot,
            self._settings.device,
            self._sockets.tcp_port,
        )
        try:
            while self._has_work():
                call = self._next_call()
                if call is not None:
                    call()
                self._report()
            LOG.info("the worker is stopping: %s", self._quit_reason)
        finally:
            # The process holds its lock until it ends, so that no successor
            # opens the sockets before they are closed.
            self._sockets.close()
            self._discard_unread()

    def _has_work(self) -> bool:
        # A session that is ending may still leave buffers to be cleared. These
        # are queued before the deadline is reset.
        return (
            self._quit_reason is None
            or self._clear_due_s < math.inf
            or not self._calls.empty()
        )

    def _next_call(self) -> _Call | None:
        """Return the next call, or None if it is time to report the status."""
        deadline_s = self._machine.deadline_s
        if deadline_s is None:
            deadline_s = math.inf
        due_s = min(deadline_s, self._clear_due_s, self._tell_due_s)
        if due_s == math.inf:
            return self._calls.get()
        try:
            return self._calls.get(timeout=max(0.0, due_s - time.monotonic()))
        except queue.Empty:
            now = time.monotonic()
            if now >= self._clear_due_s:
                _give_up()
            return self._tick if now >= deadline_s else None

    def _tick(self) -> None:
        server = self._server(self._machine.order)
        self._decide(state.Tick(server.progress(), server.is_waiting))

    def _server(
        self, order: state.Order | None
    ) -> desks.SessionServer | tasks.Member:
        is_member = order is not None and order.group_id
        return self._member if is_member else self._desk

    def _agent_came(self) -> None:
        self._decide(state.AgentConnected())
        self._hand_over()
        self._ask_for_desk()
        self._ask_for_next()

    def _agent_went(self) -> None:
        self._decide(state.AgentLost())

    def _ask_for_desk(self) -> None:
        """Ask the agent for the connection that the member waits for.

        Without an agent, the next one is asked.
        """
        generation = self._member.wanted
        if generation is not None:
            self._newest.notify("desk_wanted", generation=generation)

    def _take_desk(self, message: messages.Message) -> None:
        self._member.take_desk(message.get("generation"), self._fd_of(message))

    def _ask_for_next(self) -> None:
        """Ask the agent for the connection to the next stage's worker."""
        wanted, order = self._reach.wanted, self._machine.order
        if wanted is not None and order is not None:
            self._newest.notify(
                "next_wanted", generation=order.generation, **wanted
            )

    def _fd_of(self, message: messages.Message) -> int | None:
        """Return the descriptor that comes with a request, if any."""
        is_there = message.get("connected") is True
        return self._newest.take_fd() if is_there else None

    def _keep_unread(self, unread: memories.Unread) -> None:
        # Keep only one session's buffers: without an agent, there is no next
        # one.
        self._discard_unread()
        self._unread.append(unread)
        self._hand_over()

    def _hand_over(self) -> None:
        """Pass the agent the buffers that are kept after their session.

        This process may be replaced before the slot's next project.
        """
        while self._unread and self._newest.agent is not None:
            fds = self._unread[0].fds
            message = messages.notification("unread")
            if not self._newest.agent.hand_over(message, fds):
                return
            channels.close_fds(fds)
            del self._unread[0]

    def _discard_unread(self) -> None:
        while self._unread:
            buffers.discard(self._unread.pop().fds)

    def _obey(self, message: messages.Message) -> dict[str, object]:
        if message.get("op") == "desk":
            self._take_desk(message)
            return {}
        if message.get("op") == "next":
            self._reach.take(message.get("number"), self._fd_of(message))
            return {}
        event = orders.parse(message)
        if event is None:
            self._tell_due_s = math.inf
            return {"status": self.status()}
        effects = self._machine.handle(event, time.monotonic())
        self._execute(effects)
        for effect in effects:
            if isinstance(effect, state.Refuse):
                raise port.Refused(effect.code, effect.message)
        return {}

    def _decide(self, event: state.Event) -> None:
        self._execute(self._machine.handle(event, time.monotonic()))

    def _execute(self, effects: list[state.Effect]) -> None:
        order = self._machine.order
        if order is not None:
            # Lines about the slot's clean-up belong to it, too.
            process.REQUEST.request_id = carriers.request_id(order.request_id)
        for effect in effects:
            match effect:
                case state.Changed(soon):
                    wait_s = _GATHER_S if soon else 0.0
                    self._tell_due_s = min(
                        self._tell_due_s, time.monotonic() + wait_s
                    )
                case state.Program(order):
                    crew.CREW.start("program", self._program, order)
                case state.Announce(order, anew):
                    self._announce(order, anew)
                case state.Join(order):
                    self._member.join(order)
                case state.Clear(order, code, message):
                    if code == codes.INTERNAL_ERROR:
                        LOG.error(
                            "slot %d of %s, session %s: %s",
                            self._settings.slot,
                            self._settings.device,
                            order.session_id,
                            message,
                        )
                    LOG.info("session %s ends: %s", order.session_id, code)
                    # A hanging thread cannot be killed; see _give_up().
                    self._clear_due_s = (
                        time.monotonic() + self._settings.clear_timeout_s
                    )
                    crew.CREW.start("clear", self._clear, order, code, message)
                case state.Quit(reason):
                    self._quit_reason = reason

    def _report(self) -> None:
        """Send the agent its messages, unless more are expected soon."""
        if self._tell_due_s < math.inf:
            is_early = self._tell_due_s > time.monotonic()
            if is_early and self._quit_reason is None:
                return
            self._tell_due_s = math.inf
            self._newest.notify("status", status=self.status())
        self._newest.flush()

    def _announce(self, order: state.Order, anew: bool) -> None:
        secret = self._desk.mint(order, anew)
        if secret is None:
            return
        self._newest.notify(
            "prepared", generation=order.generation, secret=secret
        )

    def _program(self, order: state.Order) -> None:
        settings = self._settings
        generation = order.generation
        began_at = time.time()
        try:
            profile = self._driver.program(
                settings.device, settings.slot, order.bitstream, order.file
            )
            if order.self_test:
                selftest.run(
                    self._driver, settings.device, settings.slot, profile
                )
                self._desk.try_memory()
            self._note_programming(generation, began_at)
        except drivers.DriverError as exc:
            self._note_programming(generation, began_at)
            LOG.warning("programming failed: %s", exc)
            self.post(
                state.ProgramFailed(
                    generation,
                    drivers.one_line(str(exc)),
                    exc.code
                    if exc.code in _TOLD_CODES
                    else codes.PROGRAM_FAILED,
                )
            )
            return
        except Exception as exc:
            LOG.exception("programming failed")
            message = drivers.one_line(f"{type(exc).__name__}: {exc}")
            self.post(state.ProgramFailed(generation, message))
            return
        if not order.self_test:
            # Create the certificate now: its hash is sent with the secret.
            self._sockets.certificate_sha256()
            self._server(order).arm(order, profile)
        self.post(state.Programmed(generation, profile.name))

    def _note_programming(self, generation: int, began_at: float) -> None:
        """Keep the times for the traces of the agent."""
        self._programming = {
            "generation": generation,
            "began_at": began_at,
            "ended_at": time.time(),
        }

    def _clear(self, order: state.Order, code: str, message: str) -> None:
        input_bytes, output_bytes = self._server(order).clear(code, message)
        self._clear_due_s = math.inf
        self._cache.wipe()
        fault = spent = None
        if memory.is_spent():
            spent = "a session has used all memory that it may use"
        try:
            self._driver.scrub(self._settings.device, self._settings.slot)
        except Exception as exc:
            if getattr(exc, "code", None) == codes.PROCESS_SPENT:
                spent = drivers.one_line(str(exc))
            else:
                LOG.exception("scrubbing failed: the slot is faulty")
                fault = drivers.one_line(f"{type(exc).__name__}: {exc}")
        self.post(
            state.Scrubbed(
                order.generation,
                input_bytes,
                output_bytes,
                time.time(),
                fault,
                spent,
            )
        )

    def status(self) -> dict[str, object]:
        machine = self._machine
        order = machine.order
        input_bytes, output_bytes = 0, 0
        if order is not None:
            input_bytes, output_bytes = self._server(order).counters()
        result, previous = machine.last_result, machine.previous_result
        return {
            "made_for": self._settings.made_for,
            "state": machine.state,
            "session_id": None if order is None else order.session_id,
            "generation": None if order is None else order.generation,
            "seen_generation": machine.seen_generation,
            "project_id": None if order is None else order.project_id,
            "last_project_id": machine.last_project_id,
            "was_member": machine.was_member and order is None,
            "is_member": order is not None and bool(order.group_id),
            "programmed": machine.programmed,
            "bitstream_id": machine.bitstream_id,
            "beyond_claim": machine.beyond_claim,
            "quanta": machine.quanta,
            "input_bytes": input_bytes,
            "output_bytes": output_bytes,
            "blocks": self._cache.counts._asdict(),
            "last_result": None if result is None else _result_members(result),
            "previous_result": (
                None if previous is None else _result_members(previous)
            ),
            "data_port": self._sockets.tcp_port,
            "certificate_sha256": self._sockets.certificate_sha256(),
            "programming": self._programming,
        }


_result_members = fields.copier(
    one.name for one in dataclasses.fields(state.Result)
)


def _give_up() -> None:
    LOG.critical(
        "the core has not stopped after its session; killing the worker"
    )
    logging.shutdown()
    os._exit(EXIT_CORE_HANGS)
