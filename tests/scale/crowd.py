# SPDX-License-Identifier: Apache-2.0

"""Many hosts and their clients in one process, which follows commands."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import json
import multiprocessing
import os
import random
import socket
import threading
import typing
from collections.abc import Callable
from collections.abc import Iterator

from oslo_config import cfg
from oslo_messaging._drivers import common as drivers_common

from fpgapool import objects
from fpgapool.agent import loop as agent_loop
from fpgapool.agent import sender
from fpgapool.common.messaging import rpc
from fpgapool.rpcapi import agent as agent_api
from fpgapool.rpcapi import conductor as conductor_api
from tests.harness import waiting
from tests.scale import host as hosts
from tests.scale import visits
from tests.scale import workers
from tests.services import process

#: Requests in a call, and calls of a process at the same time, while the
#: queue is being filled.
_TOGETHER = 100
_CALLS = 1

_THREADS = 4
_MAX_DATAGRAM_BYTES = 4096
_CONSUME_S = 0.5
_COMMAND_S = 300.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A process of hosts.

    :ivar first: number of its first host.
    """

    transport_url: str
    seed: int
    first: int
    hosts: int
    slots: int
    projects: int
    report_interval_s: float


class Line(threading.Thread):
    """Receives the messages to all hosts on one connection."""

    def __init__(self, found: list[hosts.Host]) -> None:
        super().__init__(name="line", daemon=True)
        driver = rpc._require_transport()._driver
        purpose = drivers_common.PURPOSE_LISTEN
        self._connection = driver._get_connection(purpose)
        for one in found:
            self._connection.declare_topic_consumer(
                exchange_name=rpc.EXCHANGE,
                topic=f"{agent_api.TOPIC}.{one.uuid}",
                callback=functools.partial(self._heard, one),
            )

    def run(self) -> None:
        """Receive for ever."""
        while True:
            with contextlib.suppress(drivers_common.Timeout):
                self._connection.consume(timeout=_CONSUME_S)

    def _heard(self, host: hosts.Host, message: typing.Any) -> None:
        message.acknowledge()
        host.heard(message["method"], message["args"])


class Filling:
    """Opens many sessions, few calls at a time; see :class:`hosts.Door`."""

    def __init__(self, crowd: Crowd, wanted: list[visits.Visit]) -> None:
        self._crowd = crowd
        self._wanted = collections.deque(wanted)
        self._conductor = conductor_api.ConductorAPI()
        self._batch: list[tuple[hosts.Door, objects.OpenRequest]] = []
        self._left = 0
        self.done = threading.Event()

    def begin(self) -> None:
        """Make the first calls; in the loop's thread, like the rest."""
        for _ in range(_CALLS):
            self._call()

    def _call(self) -> None:
        hosts.Door.together = lambda *one: self._batch.append(one)
        while self._wanted and len(self._batch) < _TOGETHER:
            self._wanted.popleft().begin()
        hosts.Door.together = None
        batch, self._batch = self._batch, []
        if not batch:
            if not self._left:
                self.done.set()
            return
        self._left += 1
        requests = [request for _, request in batch]

        def answered(views: list[objects.SessionView]) -> None:
            self._left -= 1
            found = {view.request_id: view for view in views}
            for door, request in batch:
                door.answered(request, found.get(request.request_id))
            self._call()

        self._crowd.shared.opener.submit(
            lambda: self._conductor.submit_sessions(requests),
            answered,
            lambda _error: answered([]),
        )


class Crowd:
    """The hosts and clients of a process; its methods are commands."""

    def __init__(self, plan: Plan) -> None:
        self._rng = random.Random(plan.seed)
        self.loop = agent_loop.Loop("crowd")
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((process.LOOPBACK, 0))
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self._port = self._socket.getsockname()[1]
        self._visits: list[visits.Visit] = []
        self._sent: collections.Counter[str] = collections.Counter()
        self.shared = hosts.Shared(
            loop=self.loop,
            casting=concurrent.futures.ThreadPoolExecutor(1),
            caller=sender.Caller(self.loop, "caller", _THREADS),
            opener=sender.Caller(self.loop, "opener", _THREADS),
            port=self._port,
            places={},
            report_interval_s=plan.report_interval_s,
            watch=self._note,
            push=lambda number, view: self._visits[number].pushed(view),
        )
        numbers = range(plan.first, plan.first + plan.hosts)
        self._hosts = [
            hosts.Host(number, plan.slots, self.shared) for number in numbers
        ]
        self._town = visits.Town(
            self._rng, self.loop, self._hosts, plan.projects, self._ask
        )
        self._line = Line(self._hosts)

    def _note(self, method: str, _took_s: float, ok: bool) -> None:
        self._sent[f"{method}{'' if ok else ' (failed)'}"] += 1

    # Between clients and workers.

    def _ask(self, port: int, *question: object) -> None:
        data = json.dumps([self._port, *question]).encode()
        self._send(port, data)

    def _send(self, port: int, data: bytes) -> None:
        # Clients ask again if something is lost.
        with contextlib.suppress(BlockingIOError):
            self._socket.sendto(data, (process.LOOPBACK, port))

    def _receive(self, _events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                document = json.loads(self._socket.recv(_MAX_DATAGRAM_BYTES))
                if document[0]:
                    self._serve(*document)
                else:
                    _, number, *answer = document
                    self._visits[number].answered(*answer)

    def _serve(
        self,
        port: int,
        what: str,
        session_id: str,
        generation: int,
        number: int,
    ) -> None:
        answer: int | None = None
        found, _key = self.shared.places.get(session_id, (None, None))
        if found is not None and what == "close":
            answer = found.close(session_id, generation)
        elif found is not None and found.connect(session_id, generation):
            answer = 0
        document = [0, number, what, session_id, generation, answer]
        self._send(port, json.dumps(document).encode())

    # Commands.

    def start(self) -> None:
        """Let all hosts report."""
        self.loop.watch(self._socket, agent_loop.READ, self._receive)
        self.loop.start()
        self.shared.caller.start()
        self.shared.opener.start()
        self._line.start()
        self._do(lambda: [one.start() for one in self._hosts])

    def _do(self, action: Callable[[], object]) -> None:
        self.loop.run_and_wait(action, _COMMAND_S)

    def _new_visits(
        self, count: int, habit: visits.Habit
    ) -> list[visits.Visit]:
        first = len(self._visits)
        found = [
            visits.Visit(self._town, first + number, habit)
            for number in range(count)
        ]
        self._visits += found
        return found

    def fill(self, count: int, habit: visits.Habit) -> None:
        """Open many sessions, and wait until all have been answered."""
        filling = Filling(self, self._new_visits(count, habit))
        self._do(filling.begin)
        if not filling.done.wait(_COMMAND_S):
            raise TimeoutError(f"{count} sessions were not opened in time")

    def come(self, count: int, habit: visits.Habit) -> None:
        """Let more clients come, not all at once."""

        def begin() -> None:
            for one in self._new_visits(count, habit):
                delay_s = self._rng.uniform(0, habit.pause_s)
                self.loop.call_later(delay_s, one.begin)

        self._do(begin)

    def finish(self, share_per_s: float, habit: visits.Habit) -> None:
        """Let clients that hold slots for ever leave from now on.

        :param share_per_s: the share of them that leaves in a second.
        :param habit: theirs when they come again.
        """

        def begin() -> None:
            for one in self._visits:
                if one.habit.hold_s is None:
                    one.habit = habit
                    delay_s = self._rng.expovariate(share_per_s)
                    self.loop.call_later(delay_s, one.finish)

        self._do(begin)

    def close(self) -> None:
        """Let nobody come or leave any more."""
        self._town.is_closing = True

    def leave(self, count: int) -> None:
        """Cut some of the hosts off."""
        self._do(lambda: [one.leave() for one in self._hosts[:count]])

    def come_back(self) -> None:
        """Let the hosts that were cut off come back."""
        self._do(
            lambda: [one.come_back() for one in self._hosts if one.is_away]
        )

    def heard_s(self, epoch: int) -> list[float]:
        """Return when hosts heard of a leader first."""
        return [
            one.epoch_s[epoch] for one in self._hosts if epoch in one.epoch_s
        ]

    def assigned_s(self, epoch: int) -> list[float]:
        """Return when hosts got a leader's first order for a slot."""
        return [
            one.assigned_s[epoch]
            for one in self._hosts
            if epoch in one.assigned_s
        ]

    def counts(self) -> collections.Counter[str]:
        """Return what has happened to clients, and how often."""
        return collections.Counter(self._town.counts)

    def sent(self) -> collections.Counter[str]:
        """Return how many messages have gone to the conductor, by method."""
        return collections.Counter(self._sent)

    def told(self) -> dict[str, visits.Told]:
        """Return what clients know of their sessions."""
        found: dict[str, visits.Told] = {}
        self._do(lambda: found.update(self._town.told))
        return found

    def uses(self) -> list[workers.Use]:
        """Return all uses of slots."""
        found: list[workers.Use] = []
        self._do(
            lambda: found.extend(
                use for one in self._hosts for use in one.workers.all_uses()
            )
        )
        return found


def _work(pipe: typing.Any, plan: Plan) -> None:
    """Be a process of hosts until the pipe ends."""
    cfg.CONF([], project="fpgapool", default_config_files=[])
    rpc.init(cfg.CONF, url=plan.transport_url)
    crowd = Crowd(plan)
    with contextlib.suppress(EOFError):
        while True:
            name, arguments = pipe.recv()
            try:
                pipe.send((getattr(crowd, name)(*arguments), None))
            except Exception as error:
                pipe.send((None, repr(error)))
    # Threads that still work need not be waited for.
    os._exit(0)


class Crowds:
    """The processes of all hosts."""

    def __init__(self, plans: list[Plan]) -> None:
        # Spawned, since a fork copies locks that other threads hold.
        context = multiprocessing.get_context("spawn")
        self.plans = plans
        self._pipes: list[typing.Any] = []
        self.processes = []
        for plan in plans:
            ours, theirs = context.Pipe()
            child = context.Process(
                target=_work, args=(theirs, plan), daemon=True
            )
            child.start()
            theirs.close()
            self._pipes.append(ours)
            self.processes.append(child)

    def ask(self, name: str, *arguments: typing.Any) -> list[typing.Any]:
        """Give all processes a command, and return their answers."""
        return self.ask_each(name, [arguments] * len(self._pipes))

    def ask_each(
        self, name: str, arguments: list[tuple[typing.Any, ...]]
    ) -> list[typing.Any]:
        """Give each process a command with its own arguments.

        :raises RuntimeError: if one fails.
        """
        for pipe, own in zip(self._pipes, arguments, strict=True):
            pipe.send((name, own))
        found = []
        for pipe in self._pipes:
            if not pipe.poll(_COMMAND_S + waiting.LIMIT_S):
                raise RuntimeError(f"no answer to {name!r}")
            answer, problem = pipe.recv()
            if problem:
                raise RuntimeError(f"{name}: {problem}")
            found.append(answer)
        return found

    def close(self) -> None:
        """End all processes."""
        for pipe in self._pipes:
            pipe.close()
        for child in self.processes:
            child.kill()
            child.join()


@contextlib.contextmanager
def running(
    transport_url: str,
    seed: int,
    *,
    hosts: int,
    slots: int,
    projects: int,
    processes: int,
    report_interval_s: float,
) -> Iterator[Crowds]:
    """Give the processes of all hosts, which report."""
    shares = shared(hosts, processes)
    plans = [
        Plan(
            transport_url=transport_url,
            seed=seed + number,
            first=1_000 + sum(shares[:number]),
            hosts=share,
            slots=slots,
            projects=projects,
            report_interval_s=report_interval_s,
        )
        for number, share in enumerate(shares)
    ]
    crowds = Crowds(plans)
    try:
        crowds.ask("start")
        yield crowds
    finally:
        crowds.close()


def shared(total: int, parts: int) -> list[int]:
    """Return a number in parts that are as equal as can be."""
    return [(total + part) // parts for part in range(parts)]
