#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.


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
import inspect
import json
import pathlib
import tempfile
import typing
import uuid
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import oslo_messaging as messaging
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool import objects
from fpgapool.agent import manager as agent_manager
from fpgapool.common import exception
from fpgapool.conductor import effects
from fpgapool.conductor import inputs
from fpgapool.conductor import limits
from fpgapool.conductor import manager
from fpgapool.db import api as db_api
from fpgapool.db import migration
from fpgapool.objects import base
from fpgapool.objects import finding
from tests.functional.agent import harness
from tests.property import fuzzing
from tests.unit.conductor import world

HOST = "a"
VM = str(uuid.UUID(int=7))
NOBODY = "nobody"


# -- payloads ----------------------------------------------------------------

PAYLOADS = {
    name: getattr(objects, name)
    for name in objects.__all__
    if name != "Payload"
}


def _sound(cls: type[base.Payload]) -> dict[str, Any]:
    """Return the form of some payload of a class."""
    primitive: dict[str, Any] = {
        base.NAME_KEY: cls.__name__,
        base.VERSION_KEY: cls.VERSION,
        base.DATA_KEY: {
            name: _sound_value(type_)
            for name, type_ in base.members(cls).items()
        },
    }
    assert cls.from_primitive(primitive).to_primitive() == primitive
    return primitive


def _sound_value(type_: Any) -> Any:
    options = [one for one in getattr(type_, "__args__", ()) if one]
    if isinstance(type_, type) and issubclass(type_, base.Payload):
        return _sound(type_)
    origin = getattr(type_, "__origin__", None)
    if origin is tuple:
        return [_sound_value(options[0])]
    if origin is dict or type_ is dict:
        return {"a": 1}
    if options:
        return _sound_value(options[0])
    return {str: "x", int: 1, float: 1.5, bool: True}[type_]


@pytest.mark.parametrize("name", PAYLOADS)
@fuzzing.examples(20)
@given(data=st.data())
def test_payloads(name: str, data: st.DataObject) -> None:
    """Any JSON is a payload that can be told again, or a ValueError."""
    cls = PAYLOADS[name]
    try:
        made = cls.from_primitive(
            data.draw(fuzzing.JUNK | fuzzing.documents(_sound(cls)))
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

    def __init__(self, pool: world.World) -> None:
        self.pool = pool
        self.on_question: Callable[[str], None] = lambda host_uuid: None
        self.database_failing = False

    def offer(self, item: inputs.Input, project_id: str | None = None) -> bool:
        self.put(item)
        return True

    def put(self, item: inputs.Input) -> None:
        self.pool.feed(item)
        wire, self.pool.wire = self.pool.wire, []
        for message in wire:
            if isinstance(message, effects.Answer):
                if message.failed:
                    message.future.set_exception(message.value)
                else:
                    message.future.set_result(message.value)
            elif isinstance(message, effects.AskReport):
                self.on_question(message.host_uuid)

    def ask(self, question, timeout_s: float, *, durable: bool = True) -> Any:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self.put(inputs.Query(question, future, durable))
        return future.result(0)

    def change_bitstream(self, change: Any, timeout_s: float) -> None:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self.put(inputs.ChangeBitstream(change, future))
        refusal = future.result(0)
        if refusal is not None:
            raise refusal


class Conductor:
    """A conductor with one host, one session that has a slot and one not."""

    def __init__(self, database: db_api.Database) -> None:
        self.pool = world.World([world.FakeAgent(HOST, 1)])
        self.pump = Pump(self.pool)
        self.endpoint = manager.ConductorManager(
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
            report = self.pool.agents[host_uuid].report().report
            self.endpoint.report(None, report.to_primitive())

    def arguments(self) -> dict[str, Any]:
        """Return what is sound for arguments of these names."""
        session = self.pool.view("r1")
        agent = self.pool.agents[HOST]
        return {
            "report": agent.report().report.to_primitive(),
            "prepared": dataclasses.replace(
                objects.Prepared.from_primitive(_sound(objects.Prepared)),
                host_uuid=HOST,
                device="board0",
                slot=0,
                session_id=session.session_id,
                generation=session.generation,
            ).to_primitive(),
            "request": dataclasses.replace(
                objects.OpenRequest.from_primitive(
                    _sound(objects.OpenRequest)
                ),
                host_uuid=HOST,
                project_id="p",
                accelerator="copy",
                expires_at=self.pool.now + 5,
            ).to_primitive(),
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
                    _sound(objects.InstanceEntry)
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
                ["renew_secret", {"session_id": session.session_id}],
                ["cancel_session", {"project_id": "p", "request_id": "r2"}],
            ],
        }


#: Changes of bitstreams have forms of their own.
CHANGES = [
    _sound(cls) for name, cls in PAYLOADS.items() if name.endswith("Bitstream")
]


def _methods(endpoint: type) -> dict[str, list[str]]:
    """Return the methods that RPC calls, and their arguments."""
    return {
        name: [
            argument
            for argument in inspect.signature(_undecorated(method)).parameters
            if argument not in ("self", "ctxt")
        ]
        for name, method in inspect.getmembers(endpoint, inspect.isfunction)
        if not name.startswith("_")
    }


def _undecorated(method: Callable[..., Any]) -> Callable[..., Any]:
    # The decorator of oslo.messaging does not say what it decorates.
    within = inspect.getclosurevars(method).nonlocals.get("func", method)
    return typing.cast(Callable[..., Any], within)


METHODS = _methods(manager.ConductorManager)


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
        patches.setattr(manager, "_REPORTS_S", 0.01)
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


@st.composite
def _arguments(
    draw: st.DrawFn, names: list[str], sound: dict[str, Any]
) -> dict[str, Any]:
    """Give arguments of a method, of which some make no sense."""
    right = {name: sound.get(name) for name in names}
    if "change" in right:
        right["change"] = draw(st.sampled_from(CHANGES))
    if not right:
        return {}
    return dict.fromkeys(names) | draw(fuzzing.documents(right))


def _check_rows(pool: world.World) -> None:
    """Every row can be written: one that cannot holds up all others."""
    for table in pool.rows.values():
        for row in table.values():
            for text in dataclasses.asdict(row).values():
                if isinstance(text, str):
                    assert limits.writable(text) == text, row
                if isinstance(text, int):
                    assert abs(text) < 2**63, row


@pytest.mark.parametrize("method", METHODS)
@fuzzing.examples(10)
@given(data=st.data())
def test_conductor(
    database: db_api.Database, method: str, data: st.DataObject
) -> None:
    """Each method takes anything; the engine, and all that it has, goes on."""
    conductor = Conductor(database)
    pool = conductor.pool
    allowed = ("One of several messages dropped",)
    with fuzzing.no_errors_logged(*allowed):
        for _ in range(data.draw(st.integers(1, 2))):
            kwargs = data.draw(
                _arguments(METHODS[method], conductor.arguments())
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


def _with_leaf(document: Any, path: tuple[Any, ...], leaf: Any) -> Any:
    """Return a document with something else in one place."""
    if not path:
        return leaf
    changed = document.copy()
    changed[path[0]] = _with_leaf(document[path[0]], path[1:], leaf)
    return changed


#: Each of them has the right type somewhere.
ODD_LEAVES = ["\0", "\ud800", "x" * 300, 10**300, -1, 1e999, [[]]]


@pytest.mark.parametrize("method", METHODS)
def test_conductor_leaf_by_leaf(
    database: db_api.Database, method: str
) -> None:
    """No single member makes a row that no database takes."""
    sound = Conductor(database).arguments()
    for change in CHANGES if "change" in METHODS[method] else [None]:
        right = {name: sound.get(name) for name in METHODS[method]}
        if change is not None:
            right["change"] = change
        for path in _leaves(right):
            if not path:
                continue
            for leaf in ODD_LEAVES:
                conductor = Conductor(database)
                with fuzzing.no_errors_logged("One of several messages"):
                    _call(
                        conductor.endpoint,
                        method,
                        _with_leaf(right, path, leaf),
                    )
                _check_rows(conductor.pool)


# -- the agents --------------------------------------------------------------

AGENT_METHODS = _methods(agent_manager.AgentManager)
AGENT_ARGUMENTS: dict[str, Any] = {
    "leader_epoch": 1,
    "request": dataclasses.replace(
        objects.AssignRequest.from_primitive(_sound(objects.AssignRequest)),
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
    try:
        return int(leader_epoch) > 1
    except (TypeError, ValueError, OverflowError):
        return False


@pytest.mark.parametrize("method", AGENT_METHODS)
@fuzzing.examples(15)
@given(data=st.data())
def test_agent(agent: Any, method: str, data: st.DataObject) -> None:
    """Each method takes anything, and the agent reports as ever."""
    kwargs = data.draw(_arguments(AGENT_METHODS[method], AGENT_ARGUMENTS))
    if _is_later(kwargs.get("leader_epoch")):
        # It would be right to ignore all that comes after it.
        kwargs["leader_epoch"] = 1
    heard = agent.conductor_heard
    with fuzzing.no_errors_logged("Message ", "One of several messages"):
        _call(agent.manager, method, kwargs)
        heard.calls.clear()
        agent.manager.report_now(None, 1)
        report = heard.wait_for("report", lambda one: True)
        limits.check(report)
        json.dumps(report.to_primitive())
