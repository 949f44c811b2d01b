# SPDX-License-Identifier: Apache-2.0

"""Fuzzing in the midst of faults: workers, front doors and the bus.

Run as ``python -m tests.chaos.fuzzers SETTINGS``, with the JSON of
:class:`Settings`. It does as :mod:`tests.chaos.obeying` says, and tells
``sent`` of nonsense, and ``bug`` of what must not have come of it. What it
must not do to others, they notice themselves.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import random
import sys
import threading
import traceback
import typing
import uuid
from collections.abc import Callable

import amqp
import hypothesis
import kombu
import kombu.exceptions
from hypothesis import strategies as st

from fpgapool import objects
from fpgapool.agent import manager as agent_manager
from fpgapool.common.channels import channel
from fpgapool.conductor import rpc as conductor_rpc
from fpgapool.objects import base
from fpgapool.protocol import frames
from fpgapool.rpcapi import agent as agent_rpcapi
from fpgapool.rpcapi import conductor as conductor_rpcapi
from fpgapool.vocabulary import codes
from tests.chaos import obeying
from tests.harness import door as doors
from tests.property import nonsense

#: What is told nonsense, and how long until it is told more.
TARGETS = {"worker": 0.7, "door": 0.3, "bus": 0.2}

_DRAWS = 10
#: How long a worker may take to answer what may be no question.
_ANSWER_S = 2.0
_CONNECT_S = 5.0
#: As many may lead one after another; only what exists is told anything.
_LEADERS = 100
#: How often a worker is not even told the secret.
_STRANGERS_SHARE = 0.3

_drawing = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a process is told.

    :ivar seed: of all that it says.
    :ivar hosts: UUIDs of those with an agent.
    """

    seed: str
    doors: list[str]
    broker_url: str
    hosts: list[str]


def drawn(
    strategy: st.SearchStrategy[typing.Any], seed: int
) -> list[typing.Any]:
    """Return some of what a strategy gives, the simplest among it.

    :param seed: the same one gives the same.
    """
    found: list[typing.Any] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=_DRAWS,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def collect(one: typing.Any) -> None:
        found.append(one)

    # Hypothesis is for one thread at a time.
    with _drawing:
        collect()
    return found


class Bug(Exception):
    """Nonsense had an effect that it must not have."""


class Fuzzer(obeying.Obeying):
    """All that this process does."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings
        self._queues = queues(settings.hosts)

    def follow(self) -> None:
        """Do as told, to the end."""
        tell: dict[str, Callable[[random.Random], int]] = {
            "worker": self._tell_worker,
            "door": self._tell_door,
            "bus": self._tell_bus,
        }
        self.run(
            functools.partial(self._repeat, target, tell[target])
            for target in TARGETS
        )

    def _repeat(
        self, target: str, tell: Callable[[random.Random], int]
    ) -> None:
        rng = random.Random(f"{self._settings.seed} {target}")
        while True:
            pause_s = rng.uniform(0.0, 2 * TARGETS[target])
            with self.turn(pause_s) as mine:
                if mine:
                    self._try(target, tell, random.Random(rng.random()))

    def _try(
        self,
        target: str,
        tell: Callable[[random.Random], int],
        rng: random.Random,
    ) -> None:
        try:
            self.say("sent", target=target, count=tell(rng))
        except OSError:
            # A fault: nobody is there, or somebody has died or is frozen.
            return
        except Exception:
            self.say("bug", text=f"{target}: {traceback.format_exc()}")

    def _tell_worker(self, rng: random.Random) -> int:
        """Get a slot, and be no good client of it."""
        with doors.Door(rng.choice(self._settings.doors)) as door:
            try:
                request_id = door.open()
                view = door.wait_state(request_id, "READY", *doors.TERMINAL)
                if view["state"] != "READY":
                    return 0
                client = door.client(view)
            except doors.Refused as error:
                _check_code(error.code)
                return 0
            hello = {**nonsense.HELLO, "params": {}}
            hello |= {n: view[n] for n in ("session_id", "generation")}
            if rng.random() > _STRANGERS_SHARE:
                hello["secret"] = view["secret"]
            stream = rng.choice(
                drawn(nonsense.session_streams(hello), rng.getrandbits(32))
            )
            with contextlib.closing(client):
                answer = _converse(client.channel, stream)
            with contextlib.suppress(doors.Refused):
                door.request("cancel", request_id=request_id)
        given = nonsense.sent_input(stream, frames.MAX_DATA_BYTES)
        if not given.startswith(
            nonsense.output(answer, frames.MAX_DATA_BYTES)
        ):
            raise Bug(f"{stream!r} was answered with {answer!r}")
        return 1

    def _tell_door(self, rng: random.Random) -> int:
        streams = drawn(nonsense.DOOR_STREAMS, rng.getrandbits(32))
        for stream in streams:
            with doors.Door(rng.choice(self._settings.doors)) as door:
                with contextlib.suppress(
                    BrokenPipeError, ConnectionResetError
                ):
                    door.send_bytes(stream)
                    door.end_input()
                for answer in door.read_to_end():
                    _check_answer(answer)
        return len(streams)

    def _tell_bus(self, rng: random.Random) -> int:
        url = self._settings.broker_url.replace("rabbit://", "amqp://")
        names = rng.sample(sorted(self._queues), len(self._queues))
        try:
            with kombu.Connection(url, connect_timeout=_CONNECT_S) as bus:
                name = next((n for n in names if _exists(bus, n)), None)
                if name is None:
                    # It has just begun, and nobody is back yet.
                    return 0
                messages = _casts(rng, self._queues[name])
                producer = bus.Producer()
                for message in messages:
                    producer.publish(
                        message, routing_key=name, serializer="json"
                    )
        except (kombu.exceptions.KombuError, amqp.AMQPError) as error:
            raise ConnectionError from error
        return len(messages)


def _exists(bus: kombu.Connection, queue: str) -> bool:
    """Tell whether a message to a queue would reach somebody."""
    with bus.channel() as probe:
        try:
            probe.queue_declare(queue, passive=True)
        except amqp.NotFound:
            return False
    return True


def _casts(rng: random.Random, told: Queue) -> list[dict[str, str]]:
    method = rng.choice(sorted(told.methods))
    payloads = drawn(
        nonsense.arguments(told.methods[method], told.known),
        rng.getrandbits(32),
    )
    return [
        envelope(method, without_effect(kwargs), told.version)
        for kwargs in payloads
    ]


def _converse(data: channel.Channel, stream: bytes) -> bytes:
    """Say something to a worker; :returns: all that it answers in time."""
    answer = bytearray()
    buffer = memoryview(bytearray(65536))
    deadline_s = channel.deadline_after(_ANSWER_S)
    with contextlib.suppress(OSError):
        data.send(stream, deadline_s=deadline_s)
        while True:
            count = data.recv_some_into(buffer, deadline_s)
            answer += buffer[:count]
    return bytes(answer)


def _check_answer(answer: dict[str, typing.Any]) -> None:
    if "event" in answer or answer["ok"] is True:
        return
    _check_code(answer["error"]["code"])


def _check_code(code: str) -> None:
    if code == codes.INTERNAL_ERROR:
        raise Bug("INTERNAL_ERROR")


# The bus.


@dataclasses.dataclass(frozen=True)
class Queue:
    """What listens to a queue.

    :ivar known: values of arguments that make sense.
    """

    methods: dict[str, list[str]]
    known: dict[str, typing.Any]
    version: str


#: Nobody in the pool is called so.
_NOBODY = "x"


def queues(hosts: list[str]) -> dict[str, Queue]:
    """Return what listens to queues, by their names.

    :param hosts: UUIDs of those with an agent.
    """
    known = {
        "report": nonsense.sound(objects.AgentReport),
        "prepared": nonsense.sound(objects.Prepared),
        "entry": nonsense.sound(objects.InstanceEntry),
        "finding": nonsense.sound(objects.Finding),
        "project_id": _NOBODY,
        "session_id": _NOBODY,
        "session_ids": [_NOBODY],
        "revisions": {_NOBODY: 1},
        "views": [nonsense.sound(objects.SessionView)],
        "request_id": _NOBODY,
        "host_uuid": _NOBODY,
        "instance_id": str(uuid.UUID(int=7)),
        "lost_hash": _NOBODY,
        "accelerator": _NOBODY,
        "device": _NOBODY,
        "state": "disabled",
        "drain_within_s": 5.0,
        "reason": "R",
        "generation": 1,
        "slot": 0,
        "slots": 1,
        "limits": {"sessions": 3},
        "leader_epoch": 1,
        "casts": [["cancel_session", {"session_id": _NOBODY}]],
    }
    topic = conductor_rpcapi.TOPIC
    names = [topic, *(f"{topic}.leader-{n}" for n in range(1, _LEADERS + 1))]
    conductor = Queue(
        nonsense.methods(conductor_rpc.ConductorManager),
        {**known, "requests": [nonsense.sound(objects.OpenRequest)]},
        conductor_rpcapi.VERSION,
    )
    agent = Queue(
        nonsense.methods(agent_manager.AgentManager),
        {**known, "request": nonsense.sound(objects.AssignRequest)},
        agent_rpcapi.VERSION,
    )
    agents = [f"{agent_rpcapi.TOPIC}.{host}" for host in hosts]
    return dict.fromkeys(names, conductor) | dict.fromkeys(agents, agent)


def without_effect(kwargs: dict[str, typing.Any]) -> dict[str, typing.Any]:
    """Take out what would be obeyed.

    Whoever reports is a host, and whoever has a higher epoch is the leader:
    there must not be one more of either. So of reports only the parsing is
    tried here, and agents drop what they understand as that of a former
    leader; what comes after is tried in ``tests/property``.

    :param kwargs: of a call; they stay as they are.
    """
    report = kwargs.get("report")
    if isinstance(report, dict) and isinstance(
        report.get(base.DATA_KEY), dict
    ):
        data = {**report[base.DATA_KEY], "host_uuid": 1}
        kwargs = {**kwargs, "report": {**report, base.DATA_KEY: data}}
    if "leader_epoch" in kwargs:
        kwargs = {**kwargs, "leader_epoch": 1}
    return kwargs


def envelope(
    method: str, kwargs: dict[str, typing.Any], version: str
) -> dict[str, str]:
    """Return what oslo.messaging makes of a cast."""
    message = {
        "method": method,
        "args": kwargs,
        "version": version,
        "_unique_id": uuid.uuid4().hex,
    }
    return {"oslo.version": "2.0", "oslo.message": json.dumps(message)}


if __name__ == "__main__":
    obeying.obey_signals()
    Fuzzer(Settings(**json.loads(sys.argv[1]))).follow()
