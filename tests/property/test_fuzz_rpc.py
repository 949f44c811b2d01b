# SPDX-License-Identifier: Apache-2.0

"""Nonsense over RPC: whatever comes, the conductor and the agents go on.

The methods are those that the endpoints have, so that a new one is covered
by being there. A call is answered, or fails with an error of the pool's own;
a cast is dropped with a line in the log. The pool's invariants hold after
every message, since a leader that fails takes all hosts with it, and so will
the next one that gets the same message.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
import json
import math
import pathlib
import tempfile
import uuid
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import oslo_messaging as messaging
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from fpgapool import objects
from fpgapool.agent import manager as agent_manager
from fpgapool.common import exception
from fpgapool.conductor import rpc
from fpgapool.conductor.calls import audits
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import limits
from fpgapool.db import api as db_api
from fpgapool.db import migration
from fpgapool.db import models
from fpgapool.objects import finding
from fpgapool.rpcapi import agent as agent_rpcapi
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.functional.agent import harness
from tests.property import fuzzing
from tests.property import nonsense
from tests.unit.conductor import world

HOST = "a"
VM = str(uuid.UUID(int=7))
NOBODY = "nobody"


# -- payloads ----------------------------------------------------------------


@pytest.mark.parametrize("name", nonsense.PAYLOADS)
@fuzzing.examples(20)
@given(data=st.data())
def test_payloads(name: str, data: st.DataObject) -> None:
    """Any JSON is a payload that can be told again, or a ValueError."""
    cls = nonsense.PAYLOADS[name]
    try:
        made = cls.from_primitive(
            data.draw(fuzzing.JUNK | fuzzing.documents(nonsense.sound(cls)))
        )
        limits.check(made)
    except ValueError:
        return
    assert cls.from_primitive(made.to_primitive()) == made


# -- the conductor -----------------------------------------------------------


class Pump:
    """Feeds the engine of a pool at once, and carries answers back.

    :param pool: whose invariants are checked after every input.
    """

    def __init__(self, pool: world.Conductor) -> None:
        self.pool = pool
        self.on_question: Callable[[str], None] = lambda host_uuid: None
        self.database_failing = False

    def now(self) -> float:
        return self.pool.now

    def offer(self, item: inputs.Input, project_id: str | None = None) -> bool:
        self.put(item)
        return True

    def put(self, item: inputs.Input) -> None:
        self.pool.feed(item)
        wire, self.pool.wire = self.pool.wire, []
        for message in wire:
            if isinstance(message, effects.Reply):
                if message.failed:
                    message.future.set_exception(message.value)
                else:
                    message.future.set_result(message.value)
            elif isinstance(message, effects.PublishSession):
                for future in message.waiting:
                    future.set_result(message.view)
            elif isinstance(message, effects.AskReport):
                self.on_question(message.host_uuid)
        unanswered = getattr(item, "future", None)
        if unanswered is not None and not unanswered.done():
            # As if the caller had waited for it.
            unanswered.set_exception(TimeoutError())

    def ask(self, question, timeout_s: float, *, durable: bool = True) -> Any:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self.put(inputs.Query(question, durable, future=future))
        return future.result(0)


class Conductor:
    """A conductor with one host, one session that has a slot and one not."""

    def __init__(self, database: db_api.Database) -> None:
        self.pool = world.Conductor([world.FakeAgent(HOST, 1)])
        self.pump = Pump(self.pool)
        self.endpoint = rpc.ConductorManager(
            self.pump,  # type: ignore[arg-type]
            database,
            self.pool.epoch,
        )
        self.pump.on_question = self._report
        self.pool.open(HOST)
        self.pool.deliver_all()
        self.pool.open(HOST)
        self.pool.wire.clear()

    def _report(self, host_uuid: str) -> None:
        if host_uuid in self.pool.agents:
            report = self.pool.agents[host_uuid].report()
            self.endpoint.report(None, report.to_primitive())

    def _last_report(self) -> objects.AgentReport:
        """Return a report that tells of an end."""
        session = self.pool.view("r1")
        report = self.pool.agents[HOST].report()
        (device,) = report.devices
        (slot,) = device.slots
        result = objects.SessionResult(
            session_id=session.session_id,
            generation=session.generation,
            state=states.CLOSED,
            code=codes.OK,
            input_bytes=1,
            output_bytes=1,
            finished_at=self.pool.now,
        )
        slot = dataclasses.replace(
            slot,
            state=states.SLOT_IDLE,
            session_id=None,
            generation=None,
            last_result=result,
            energy_j=1.0,
        )
        device = dataclasses.replace(device, slots=(slot,))
        return dataclasses.replace(report, devices=(device,))

    def arguments(self) -> dict[str, Any]:
        """Return what is sound for arguments of these names."""
        session = self.pool.view("r1")
        return {
            "report": self._last_report().to_primitive(),
            "prepared": dataclasses.replace(
                objects.Prepared.from_primitive(
                    nonsense.sound(objects.Prepared)
                ),
                host_uuid=HOST,
                device="board0",
                slot=0,
                session_id=session.session_id,
                generation=session.generation,
            ).to_primitive(),
            "requests": [
                dataclasses.replace(
                    objects.OpenRequest.from_primitive(
                        nonsense.sound(objects.OpenRequest)
                    ),
                    host_uuid=HOST,
                    project_id="p",
                    accelerator="copy",
                ).to_primitive()
            ],
            "project_id": "p",
            "session_id": session.session_id,
            "request_id": "r1",
            "reason": "why",
            "generation": session.generation,
            "host_uuid": HOST,
            "session_ids": [session.session_id, NOBODY],
            "revisions": {session.session_id: 0, NOBODY: 1},
            "entry": dataclasses.replace(
                objects.InstanceEntry.from_primitive(
                    nonsense.sound(objects.InstanceEntry)
                ),
                instance_id=VM,
                token_nonce="0" * 32,
                token_hash="0" * 64,
            ).to_primitive(),
            "lost_hash": "1" * 64,
            "instance_id": VM,
            "device": "board0",
            "state": "draining",
            "drain_within_s": 5.0,
            "slots": 1,
            "limits": {"sessions": 3},
            "finding": objects.Finding(
                kind=finding.SESSION_DIFFERS,
                subject="s",
                detail="d",
                session_id=session.session_id,
                slot_id=1,
            ).to_primitive(),
            "casts": [
                ["cancel_session", {"project_id": "p", "request_id": "r3"}],
                ["cancel_session", {"project_id": "p", "request_id": "r2"}],
            ],
        }


METHODS = nonsense.methods(rpc.ConductorManager)


@pytest.fixture(scope="module")
def database() -> Iterator[db_api.Database]:
    """Give a real database, with nothing in it."""
    with (
        tempfile.TemporaryDirectory() as directory,
        pytest.MonkeyPatch.context() as patches,
    ):
        made = db_api.Database(f"sqlite:///{directory}/db.sqlite")
        migration.sync(made.engine)
        # Hosts that somebody has made up do not answer.
        patches.setattr(audits, "_REPORTS_S", 0.01)
        yield made
        made.close()


def _call(endpoint: object, method: str, kwargs: dict[str, Any]) -> None:
    """Call a method as the RPC server does."""
    # Whatever comes was JSON.
    kwargs = json.loads(json.dumps(kwargs))
    try:
        answer = getattr(endpoint, method)(None, **kwargs)
        json.dumps(answer)
    except messaging.ExpectedException as expected:
        error = expected.exc_info[1]
        if not isinstance(error, exception.FpgapoolException):
            raise error from None


def _check_rows(pool: world.Conductor) -> None:
    """Every row can be written: one that cannot holds up all others."""
    for name, table in pool.rows.items():
        columns = getattr(models, name).c
        for row in table.values():
            for member, value in dataclasses.asdict(row).items():
                if isinstance(value, str | int | float):
                    assert _fits(value, columns[member].type), (member, row)


def _fits(value: str | int | float, type_: Any) -> bool:
    if isinstance(value, str):
        most = getattr(type_, "length", None)
        return limits.writable(value) == value and (
            most is None or len(value) <= most
        )
    if isinstance(value, float):
        return math.isfinite(value)
    bits = 64 if isinstance(type_, sa.BigInteger | sa.Float) else 32
    return abs(value) < 2 ** (bits - 1)


# Beginnings of what is logged about casts that are not valid.
_BAD_CASTS = ("Dropped a cast from", "A cast from a combined message")


@pytest.mark.parametrize("method", METHODS)
@fuzzing.examples(10)
@given(data=st.data())
def test_conductor(
    database: db_api.Database, method: str, data: st.DataObject
) -> None:
    """Each method takes anything; the engine, and all that it has, goes on."""
    conductor = Conductor(database)
    pool = conductor.pool
    with fuzzing.no_errors_logged(*_BAD_CASTS):
        for _ in range(data.draw(st.integers(1, 2))):
            kwargs = data.draw(
                nonsense.arguments(METHODS[method], conductor.arguments())
            )
            _call(conductor.endpoint, method, kwargs)
            _check_rows(pool)
        conductor.pump.put(pool.agents[HOST].report())
        pool.tick(1.0)
        pool.tick(100.0)
        assert conductor.endpoint.pool_summary(None)
        pool.wire.clear()
        _check_rows(pool)


def _leaves(
    value: Any, path: tuple[Any, ...] = ()
) -> Iterator[tuple[Any, ...]]:
    """Give where in a document something is that has no parts."""
    parts: Any = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    if not parts:
        yield path
    for name, part in parts:
        yield from _leaves(part, (*path, name))


#: Each of them has the right type somewhere.
ODD_LEAVES = [
    "",
    "\0",
    "\ud800",
    "x" * 20,
    "x" * 200,
    "x" * 300,
    10**300,
    2**40,
    2**63 - 1,
    -1,
    1e308,
    1e999,
    [[]],
]


@pytest.mark.parametrize("method", METHODS)
def test_conductor_leaf_by_leaf(
    database: db_api.Database, method: str
) -> None:
    """No single member makes a row that no database takes."""
    for change in nonsense.CHANGES if "change" in METHODS[method] else [None]:

        def right(conductor: Conductor, change: Any = change) -> Any:
            known = {**conductor.arguments(), "change": change}
            return {name: known.get(name) for name in METHODS[method]}

        leaves = len(list(_leaves(right(Conductor(database)))))
        for number, leaf in itertools.product(range(leaves), ODD_LEAVES):
            conductor = Conductor(database)
            sound = right(conductor)
            path = list(_leaves(sound))[number]
            if not path:
                continue
            with fuzzing.no_errors_logged(*_BAD_CASTS):
                _call(
                    conductor.endpoint,
                    method,
                    fuzzing.with_leaf(sound, path, leaf),
                )
            _check_rows(conductor.pool)


# -- the agents --------------------------------------------------------------

AGENT_METHODS = nonsense.methods(agent_manager.AgentManager)
AGENT_ARGUMENTS: dict[str, Any] = {
    "leader_epoch": 1,
    "request": dataclasses.replace(
        objects.AssignRequest.from_primitive(
            nonsense.sound(objects.AssignRequest)
        ),
        host_uuid=harness.HOST,
        device="board0",
        slot=0,
        accelerator="copy",
        bitstream="builtin:copy",
        bitstream_ref=None,
    ).to_primitive(),
    "device": "board0",
    "slot": 0,
    "session_id": "x",
    "generation": 1,
    "reason": "why",
    "views": [harness.view("r", "QUEUED", 1).to_primitive()],
    "casts": [["report_now", {"leader_epoch": 1}]],
}


@pytest.fixture(scope="module")
def agent() -> Iterator[Any]:
    """Give an agent with a board, and a worker in each of its slots."""
    with (
        tempfile.TemporaryDirectory() as name,
        harness.running_host(pathlib.Path(name)) as host,
    ):
        made = host.start()
        for slot in (0, 1):
            host.conductor.wait_for_slot(slot, lambda one: one.state == "idle")
        made.conductor_heard = host.conductor
        yield made


def _is_later(leader_epoch: Any) -> bool:
    """What no leader can have is not one, and must not be taken for one."""
    if type(leader_epoch) is not int:
        return False
    return 1 < leader_epoch <= agent_rpcapi.MAX_EPOCH


@pytest.mark.parametrize("method", AGENT_METHODS)
@fuzzing.examples(15)
@given(data=st.data())
def test_agent(agent: Any, method: str, data: st.DataObject) -> None:
    """Each method takes anything, and the agent reports as ever."""
    kwargs = data.draw(
        nonsense.arguments(AGENT_METHODS[method], AGENT_ARGUMENTS)
    )
    if _is_later(kwargs.get("leader_epoch")):
        # It would be right to ignore all that comes after it.
        kwargs["leader_epoch"] = 1
    heard = agent.conductor_heard
    with fuzzing.no_errors_logged("Dropped an invalid ", *_BAD_CASTS):
        _call(agent.manager, method, kwargs)
        heard.calls.clear()
        agent.manager.report_now(None, 1)
        report = heard.wait_for("report", lambda one: True)
        limits.check(report)
        json.dumps(report.to_primitive())
