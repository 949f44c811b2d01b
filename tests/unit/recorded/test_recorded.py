# SPDX-License-Identifier: Apache-2.0

"""All that was ever recorded is understood by what there is now."""

import concurrent.futures
import contextlib
import dataclasses
import datetime
import enum
import json
import types
from collections.abc import Iterator
from typing import Any

import oslo_messaging as messaging
import pytest
import sqlalchemy as sa

from fpgapool.agent import manager as agent_manager
from fpgapool.agent.slots import slot
from fpgapool.agent.slots import table
from fpgapool.agent.worker import hello
from fpgapool.agent.worker import orders
from fpgapool.agent.worker import state as worker_state
from fpgapool.api.backends import news
from fpgapool.client.links import connection
from fpgapool.common import exception
from fpgapool.common.messaging import freshness
from fpgapool.common.messaging import rpc
from fpgapool.conductor import rpc as conductor_rpc
from fpgapool.db import api as db_api
from fpgapool.db import migration
from fpgapool.protocol import frames
from fpgapool.protocol import messages
from tests.unit import recorded
from tests.unit.recorded import making
from tests.unit.recorded import samples

RECORDINGS = recorded.load_all()
MAKE = "python -m tests.unit.recorded.make records what is new"


@pytest.fixture(scope="module")
def now() -> recorded.Recording:
    """Give what a recording would have now."""
    return making.current()


@pytest.fixture(params=RECORDINGS.values(), ids=RECORDINGS)
def old(request: pytest.FixtureRequest) -> recorded.Recording:
    """Give each recording."""
    return request.param


@pytest.fixture
def newest() -> recorded.Recording:
    return list(RECORDINGS.values())[-1]


def lacks(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield where a document is not in another one, which may have more."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, value in old.items():
            if name not in new:
                yield f"{path}.{name}"
            else:
                yield from lacks(value, new[name], f"{path}.{name}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield path
        for number, pair in enumerate(zip(old, new, strict=False)):
            yield from lacks(*pair, f"{path}[{number}]")
    elif old != new:
        yield path


def shape(document: Any) -> Any:
    """Return a document with types in the place of its values."""
    if isinstance(document, dict):
        return {name: shape(value) for name, value in document.items()}
    if isinstance(document, list):
        return [shape(value) for value in document]
    return type(document).__name__


def leaves(value: Any) -> set[Any]:
    """Return all texts and numbers in a value."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, datetime.date):
        value = value.isoformat()
    if dataclasses.is_dataclass(value):
        value = [
            getattr(value, field.name) for field in dataclasses.fields(value)
        ]
    if isinstance(value, dict):
        return leaves([*value, *value.values()])
    if isinstance(value, list | tuple | set | frozenset):
        return set().union(*map(leaves, value))
    return {value} if isinstance(value, str | int | float) else set()


def said(form: Any) -> set[Any]:
    """Return all texts and numbers of a message, without its envelopes."""
    if isinstance(form, dict) and "fpgapool_object" in form:
        return said(list(form["data"].values()))
    if isinstance(form, dict):
        return said([*form, *form.values()])
    return set().union(*map(said, form)) if isinstance(form, list) else {form}


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


# Payloads.


def test_payloads_are_read(old) -> None:
    for name, payload in old["payloads"].items():
        read = making.PAYLOADS[name].from_primitive(payload["form"])
        again = json.loads(json.dumps(read.to_primitive()))
        # Payloads within it may have later versions.
        assert not list(lacks(said_of(payload["form"]), said_of(again))), name


def said_of(form: Any) -> Any:
    """Return a payload's members, and theirs, without versions."""
    if isinstance(form, dict) and "fpgapool_object" in form:
        form = form["data"]
    if isinstance(form, dict):
        return {name: said_of(value) for name, value in form.items()}
    return [said_of(one) for one in form] if isinstance(form, list) else form


def test_other_members_are_another_version(old, now) -> None:
    for name, payload in old["payloads"].items():
        mine = now["payloads"][name]
        assert numbers(mine["version"]) >= numbers(payload["version"]), name
        if mine["version"] == payload["version"]:
            assert mine["members"] == payload["members"], name


def test_payloads_of_today_are_recorded(newest, now) -> None:
    for name, payload in now["payloads"].items():
        assert name in newest["payloads"], MAKE
        for part in ("version", "members"):
            assert payload[part] == newest["payloads"][name][part], MAKE


# Remote calls.


def messages_of(old: recorded.Recording, topic: str) -> list[Any]:
    """Return what was sent to a topic, which may not have been there."""
    return old["rpc"].get(topic, {"messages": []})["messages"]


@pytest.mark.parametrize("topic", making.APIS)
def test_versions_of_calls_only_grow(old, now, topic) -> None:
    module = making.APIS[topic][0]
    then = {one["method"] for one in messages_of(old, topic)}
    sent = {one["method"] for one in now["rpc"][topic]["messages"]}
    assert then <= sent
    if topic not in old["rpc"]:
        return
    version = numbers(old["rpc"][topic]["version"])
    assert numbers(module.VERSION) >= version
    for method in sent:
        since = numbers(module.SINCE.get(method, "1.0"))
        assert since <= numbers(module.VERSION), method
        # A version that was released never gets another method.
        assert (since <= version) == (method in then), method


@pytest.mark.parametrize("topic", making.APIS)
def test_calls_of_today_are_recorded(newest, now, topic) -> None:
    def outline(recording: recorded.Recording) -> list[Any]:
        part = recording["rpc"][topic]
        messages = part["messages"]
        calls = [(one["method"], sorted(one["kwargs"])) for one in messages]
        return [part["version"], *sorted(calls)]

    assert outline(now) == outline(newest), MAKE


class Heard:
    """What an endpoint puts in, or has done; answers nothing."""

    database_failing = False

    def __init__(self) -> None:
        self.items: list[Any] = []

    def now(self) -> float:
        return 1000.0

    def offer(self, item: Any, _project_id: Any = None) -> bool:
        self.items.append(item)
        future = getattr(item, "future", None)
        if future is not None:
            future.set_exception(concurrent.futures.TimeoutError())
        return True

    def accept_epoch(self, epoch: int) -> bool:
        self.items.append(epoch)
        return True

    def ask(self, question: Any, *_args: Any, **_kwargs: Any) -> Any:
        # The arguments are in the question.
        cells = question.__closure__ or ()
        self.items += [cell.cell_contents for cell in cells]
        try:
            quotas = types.SimpleNamespace(kept_here=True)
            pool = types.SimpleNamespace(quotas=quotas)
            return question(types.SimpleNamespace(pool=pool))
        except AttributeError:
            raise TimeoutError from None

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self.items.append(args)


@dataclasses.dataclass
class NoDatabase:
    """Knows nothing."""

    heard: Heard

    def get_instance(self, _instance_id: str) -> None:
        return None

    def part_of_inventory(self, after: str, _most: int) -> None:
        self.heard.items.append(after)
        raise exception.DatabaseUnavailable(reason="away")


def endpoint(topic: str) -> tuple[Any, Heard]:
    """Return what answers at a topic, and what it hears."""
    heard = Heard()
    if topic == "agent":

        def command(_name: str, change: Any, *arguments: Any) -> None:
            heard.items.append(arguments)
            if not hasattr(table.SlotTable, change.__name__):
                change(heard, *arguments, 1.0)

        return agent_manager.AgentManager(command, heard.items.append), heard
    if topic == "api":
        return news.Endpoint(heard.items.append), heard
    made = conductor_rpc.ConductorManager(
        heard, NoDatabase(heard), samples.LEADER_EPOCH
    )
    return made, heard


@pytest.mark.parametrize("topic", making.APIS)
def test_messages_are_heard(old, topic, monkeypatch) -> None:
    """Each argument comes out of the endpoint that a message was sent to."""
    names = {name: module.TOPIC for name, (module, _) in making.APIS.items()}
    # They were for receivers that have ended.
    monkeypatch.setattr(freshness.Receiver, "accept", lambda *_: None)
    for message in messages_of(old, topic):
        made, heard = endpoint(topic)
        guarded = rpc._Guard(made, names[topic], making.KEYS, True, True)
        try:
            getattr(guarded, message["method"])(None, **message["kwargs"])
        except messaging.ExpectedException as error:
            reason = error.exc_info[1]
            assert isinstance(reason, exception.DatabaseUnavailable), reason
        kwargs = message["kwargs"]
        if message["method"] == rpc.SIGNED:
            _method, kwargs, *_stamp = json.loads(kwargs["body"])
        if message["method"] == rpc.SEVERAL:
            kwargs = [one for _method, one in kwargs["casts"]]
        # Names of arguments are no part of what they say.
        values = kwargs if isinstance(kwargs, list) else [kwargs]
        for arguments in values:
            # What lives is noted by the endpoint itself.
            known = [heard.items, getattr(made, "_services", {})]
            missing = said(list(arguments.values())) - leaves(known)
            assert not missing - {None}, message["method"]


@pytest.mark.parametrize("topic", making.APIS)
def test_answers_are_read(old, now, topic) -> None:
    mine = {
        one["method"]: one.get("answer")
        for one in now["rpc"][topic]["messages"]
    }
    for message in messages_of(old, topic):
        if "answer" not in message:
            continue
        method, answer = message["method"], message["answer"]
        api = making.api_on(topic, making.Wire({method: answer}))
        got = getattr(api, method)(**making.methods(topic)[method][0])
        missing = said(answer) - leaves(got)
        assert not missing - {None, "changed", "unknown"}, method
        # Who asks today finds all that was there.
        assert not list(lacks(shape(answer), shape(mine[method]))), method


# The data plane.


def test_frames_are_read(old, now) -> None:
    for name, text in old["frames"].items():
        data = bytes.fromhex(text)
        header = frames.FrameHeader.unpack_from(data)
        payload = data[frames.HEADER_BYTES :]
        assert frames.FrameType(header.type).name == name
        assert header.pack() + payload == data
        assert header.wire_payload_bytes == len(payload)
        # It is sent today as it was, perhaps with more in it.
        mine = bytes.fromhex(now["frames"][name])
        if header.type in frames.JSON_TYPES:
            document = frames.decode_json(mine[frames.HEADER_BYTES :])
            assert not list(lacks(frames.decode_json(payload), document))
        else:
            assert mine == data


def document_of(old: recorded.Recording, name: str) -> dict[str, Any]:
    return frames.decode_json(
        bytes.fromhex(old["frames"][name])[frames.HEADER_BYTES :]
    )


def test_workers_understand_clients(old) -> None:
    document = document_of(old, "HELLO")
    assert not said(list(document.values())) - leaves(hello.parse(document))


def test_clients_understand_workers(old) -> None:
    document = document_of(old, "OPENED")
    opened = connection.Opened.from_document(document)
    assert opened.shared_buffers == document["shm"]["buffers"]
    # The client knows what it has asked for.
    for name in ("accelerator", "max_streams", "shm"):
        del document[name]
    assert not said(list(document.values())) - leaves(opened)
    (payload,) = (
        bytes.fromhex(text)[frames.HEADER_BYTES :]
        for name, text in old["frames"].items()
        if name == "CHECKSUM"
    )
    assert frames.Checksums.decode(payload) == making.CHECKSUMS


# Agents and workers.


def test_workers_understand_agents(old, now) -> None:
    for message in old["control"]["requests"]:
        if message["op"] == "assign":
            order = worker_state.Order(**orders.order_members(message))
            known = leaves(order)
            for name in (
                *("session_id", "generation", "project_id", "accelerator"),
                *("bitstream", "connect_timeout_s", "resume_grace_s"),
                *("origin_host_uuid", "claim_limit_bytes", "idle_timeout_s"),
                *("max_hold_s", "min_progress_bytes_per_s"),
            ):
                assert message[name] in known, name
            assert (
                order.bitstream_id
                == (message["bitstream_ref"]["bitstream_id"])
            )
    mine = {one["op"]: one for one in now["control"]["requests"]}
    for message in old["control"]["requests"]:
        assert not list(lacks(shape(message), shape(mine[message["op"]])))


def test_agents_understand_workers(old, now) -> None:
    for message in old["control"]["answers"]:
        if "status" in message:
            # The records have texts in these places.
            members = message["status"] | {
                "quanta": 16_000,
                "is_member": True,
                "was_member": True,
                "blocks": {"hits": 16_000},
            }
            status = slot.WorkerStatus.from_members(members)
            assert (
                not said(list(members.values()))
                - leaves(status)
                - set(message["status"]["last_result"])
            )
    pairs = zip(
        old["control"]["answers"], now["control"]["answers"], strict=False
    )
    for then, mine in pairs:
        assert not list(lacks(shape(then), shape(mine)))


def test_control_messages_are_framed_as_they_were(old) -> None:
    decoder = messages.MessageDecoder()
    for message in (*old["control"]["requests"], *old["control"]["answers"]):
        assert decoder.feed(messages.encode(message)) == [message]


# The REST API.


def test_answers_keep_their_members(old, now) -> None:
    assert not list(lacks(old["rest"], now["rest"]))


# The database.


def fill(engine: sa.Engine, rows: dict[str, dict[str, Any]]) -> None:
    """Put a row into each table, as the database has them now."""
    metadata = sa.MetaData()
    metadata.reflect(engine)
    with engine.begin() as connection:
        for table in metadata.sorted_tables:
            row = rows.get(table.name)
            if row is None:
                continue
            for column in table.columns:
                if isinstance(row.get(column.name), dict | list):
                    column.type = sa.JSON()
                elif isinstance(column.type, sa.Date):
                    # As all databases take it.
                    column.type = sa.String()
            connection.execute(sa.insert(table), row)


def test_rows_are_loaded(old) -> None:
    rows = old["rows"]
    with contextlib.closing(db_api.Database("sqlite://")) as database:
        engine = database.engine
        migration.sync(engine, old["migration"])
        fill(engine, rows)
        migration.sync(engine)
        found = leaves(
            [
                database.load(),
                database.read_lease(),
                database.accelerators(),
                database.sum_usage(limit=1000),
                database.get_instance(samples.fixed("", "instance_id")),
            ]
        )
    for name, row in rows.items():
        missing = leaves(list(row.values())) - found
        if name == "leader_lease":
            # Only the database reckons with it.
            missing.discard(row["ahead_s"])
        assert not missing, name
