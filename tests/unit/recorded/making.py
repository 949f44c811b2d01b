# SPDX-License-Identifier: Apache-2.0

"""What services say and keep at present."""

import dataclasses
import inspect
import json
import typing
from typing import Any
from typing import Self
from unittest import mock

from fpgapool import objects
from fpgapool.agent.slots import slot
from fpgapool.api import routes
from fpgapool.common.messaging import freshness
from fpgapool.common.messaging import rpc
from fpgapool.common.messaging import signing
from fpgapool.conductor.decisions.budgets import rules
from fpgapool.conductor.decisions.requests import quotas
from fpgapool.db import migration
from fpgapool.objects import base
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.protocol import messages
from fpgapool.rpcapi import agent as agent_api
from fpgapool.rpcapi import api as api_api
from fpgapool.rpcapi import conductor as conductor_api
from tests.unit import recorded
from tests.unit.conductor import world
from tests.unit.recorded import samples

#: Topic -> module and class of what sends to it.
APIS = {
    "conductor": (conductor_api, conductor_api.ConductorAPI),
    "agent": (agent_api, agent_api.AgentAPI),
    "api": (api_api, api_api.ApiAPI),
}
KEYS = signing.Keys(signing.CONTROL, (b"p" * 32,))
CHECKSUMS = frames.Checksums(4096, 4100, 0x01020304, 0x05060708)
PAYLOADS = {
    name: one
    for name, one in vars(objects).items()
    if isinstance(one, type) and one is not objects.Payload
}


def current() -> recorded.Recording:
    """Return what a recording would have now."""
    recording = {
        "payloads": {name: _payload(cls) for name, cls in PAYLOADS.items()},
        "rpc": {topic: _messages(topic) for topic in APIS},
        "frames": {name: data.hex() for name, data in _frames().items()},
        "control": _control(),
        "rest": _rest(),
        "migration": migration.newest_version(),
        "rows": samples.rows(),
    }
    # As it comes back from a file.
    return json.loads(json.dumps(recording))


def _payload(cls: type[base.Payload]) -> dict[str, Any]:
    return {
        "version": cls.VERSION,
        "members": {
            name: type_name(type_) for name, type_ in base.members(cls).items()
        },
        "form": samples.payload(cls).to_primitive(),
    }


def type_name(type_: Any) -> str:
    """Return a type's name, the same in all versions of Python."""
    arguments = ", ".join(map(type_name, typing.get_args(type_)))
    origin = typing.get_origin(type_)
    name = "..." if type_ is ... else (origin or type_).__name__
    return f"{name}[{arguments}]" if arguments else name


class Stamps:
    """Takes the place of what stamps messages: all are alike."""

    def __init__(self, *_arguments: object) -> None:
        pass

    def cast(self) -> freshness.Stamp:
        """Return the stamp of any cast."""
        return freshness.Stamp("0123456789abcdef", 7)

    def call(self, timeout_s: float) -> freshness.Stamp:
        """Return the stamp of any call."""
        return freshness.Stamp("0123456789abcdef", 7, "fedcba9876543210", 1.5)


class Wire:
    """Takes the place of oslo.messaging's client."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.sent: list[dict[str, Any]] = []
        self._answers = answers

    def prepare(self, **_options: Any) -> Self:
        """Be the client with these options, too."""
        return self

    def cast(self, _context: Any, method: str, **kwargs: Any) -> None:
        """Note a message."""
        self.sent.append({"method": method, "kwargs": kwargs})

    def call(self, _context: Any, method: str, **kwargs: Any) -> Any:
        """Note a message, and answer it."""
        answer = self._answers[method]
        self.sent.append(
            {"method": method, "kwargs": kwargs, "answer": answer}
        )
        return answer


def api_on(topic: str, wire: Wire, keys: signing.Keys | None = None) -> Any:
    """Return what sends to a topic, with a wire that is not the broker's."""
    with (
        mock.patch.object(rpc, "_require_transport"),
        mock.patch.object(rpc.messaging, "get_rpc_client", return_value=wire),
        mock.patch.object(freshness, "Sender", Stamps),
    ):
        return APIS[topic][1](keys=keys)


def methods(topic: str) -> dict[str, list[dict[str, Any]]]:
    """Return all methods that send, and arguments for them."""
    found = {}
    for name, method in inspect.getmembers(APIS[topic][1], callable):
        hints = typing.get_type_hints(method) if name[0] != "_" else {}
        # These keep in mind who leads, or send what others have said.
        if hints and name not in ("address_leader", "together"):
            hints.pop("return")
            found[name] = [
                {
                    argument: samples.value(name, argument, type_)
                    for argument, type_ in one.items()
                }
                for one in _without_unions(hints)
            ]
    return found


def _without_unions(hints: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the hints, once for each payload that an argument can be."""
    for name, type_ in hints.items():
        kinds = [
            one
            for one in typing.get_args(type_)
            if isinstance(one, type) and issubclass(one, base.Payload)
        ]
        if typing.get_origin(type_) in samples.UNIONS and len(kinds) > 1:
            return [{**hints, name: kind} for kind in kinds]
    return [hints]


def _messages(topic: str) -> dict[str, Any]:
    module, _ = APIS[topic]
    wire = Wire(_answers(topic))
    api = api_on(topic, wire)
    for name, several in methods(topic).items():
        for arguments in several:
            getattr(api, name)(**arguments)
    casts = [one for one in wire.sent if "answer" not in one]
    names = [one["method"] for one in casts]
    if hasattr(api, "together"):
        with api.together():
            for name in names[:2]:
                getattr(api, name)(**methods(topic)[name][0])
    signs = api_on(topic, wire, KEYS)
    # The signed text has no payload, so that none is in two lines.
    plain = [one for one in names if not _has_payloads(wire, one)]
    for name in plain[:1]:
        getattr(signs, name)(**methods(topic)[name][0])
    return {"version": module.VERSION, "messages": wire.sent}


def _has_payloads(wire: Wire, method: str) -> bool:
    (sent,) = (one for one in wire.sent if one["method"] == method)
    return base.NAME_KEY in json.dumps(sent["kwargs"])


def _answers(topic: str) -> dict[str, Any]:
    limits = rules.Limits(slot_s=1000, bytes=2**40)
    pool = world.Conductor(
        [world.FakeAgent(samples.HOST_UUID, 2)],
        default_budget=rules.Budget(limits=limits),
    )
    pool.open(samples.HOST_UUID)
    view = samples.payload(objects.SessionView).to_primitive()
    answers = {
        name: _answer(typing.get_type_hints(getattr(APIS[topic][1], name)))
        for name in methods(topic)
    }
    now = pool.ask.now()
    hosts = pool.hardware().summary(now["unusable_slots"])
    return answers | {
        "changed_sessions": {"changed": [view], "unknown": ["unknown"]},
        "get_budget": pool.ask.budgets.document("p"),
        "budgets_after": pool.ask.budgets.documents_after("", 9),
        "get_quota": quotas.document(pool.memory.quotas.of("p")),
        "get_share": pool.ask.share("p", ""),
        "hosts_now": pool.ask.hosts_now([samples.HOST_UUID]),
        "pool_counts": pool.ask.counts(),
        "pool_hosts": {"hosts": hosts, "next": samples.HOST_UUID},
        "pool_now": now,
        "pool_summary": {
            "strategy": now["strategy"],
            "waiting": 0,
            "sessions": now["sessions"],
            "hosts": hosts,
        },
        "services_now": {
            "version": "version",
            "services": [
                methods("conductor")["note_service"][0]
                | {"last_report_at": 7.5, "up": True}
            ],
        },
    }


def _answer(hints: dict[str, Any]) -> Any:
    type_ = hints["return"]
    if type_ is type(None):
        return None
    found = samples.value("", "answer", type_)
    if isinstance(found, list):
        return [
            one.to_primitive() if isinstance(one, base.Payload) else one
            for one in found
        ]
    return found.to_primitive() if isinstance(found, base.Payload) else found


def _frames() -> dict[str, bytes]:
    """Return a frame of each kind."""
    place = {"stream_id": 0, "task_id": 3, "offset_bytes": 4096}
    bodies = {
        frames.HELLO: {
            "features": [frames.CHECKSUM_FEATURE],
            "session_id": "session_id",
            "generation": samples.fixed("", "generation"),
            "transport": "stream",
            "secret": "5e" * 32,
            "params": {"key": "00"},
            "start_input_offset": 8,
            "start_output_offset": 9,
        },
        frames.OPENED: {
            "features": [frames.CHECKSUM_FEATURE],
            "resume_secret": "7e" * 32,
            "return_secret": "3e" * 32,
            "chunk_bytes": 4096,
            "window_bytes": 8192,
            "input_offset": 8,
            "output_offset": 9,
            "stateless": True,
            "accelerator": "copy",
            "chunk_multiple_bytes": 16,
            "max_streams": 1,
            "resume_grace_s": 12.5,
            "shm": {"buffers": 2, "buffer_bytes": 4096},
        },
        frames.CLOSED: {
            "code": "OK",
            "input_bytes": 4096,
            "output_bytes": 4100,
            "run_s": 1.5,
        },
        frames.TASK_PARAMS: {"key": "00"},
        frames.UNLOCK: {"code": "LOCK_LOST", "message": "text"},
        frames.LINK: {
            "from": {"secret_sha256": "ab" * 32},
            "to": {
                "session_id": "session_id",
                "generation": samples.fixed("", "generation"),
                "secret": "5e" * 32,
                "certificate_sha256": "cd" * 32,
                "require_tls": True,
            },
        },
        frames.MEMBERS: groups.MemberList(
            4,
            (
                groups.Host(
                    "host_id", 2, (("tcp", "127.0.0.1", 4000),), "ce" * 32
                ),
            ),
        ).document(),
    }
    found = {}
    for kind in frames.FrameType:
        if kind in bodies:
            header = frames.FrameHeader(kind)
            found[kind.name] = frames.encode_frame(header, bodies[kind])
        elif kind is frames.FrameType.ERROR:
            found[kind.name] = frames.error_frame("IDLE_TIMEOUT", "text", 4096)
        else:
            payload = b""
            if kind is frames.FrameType.CHECKSUM:
                payload = CHECKSUMS.encode()
            flags = 0
            if kind in frames.DATA_TYPES:
                payload, flags = b"data", frames.END | frames.TASK_END
            header = frames.FrameHeader(
                kind, flags, payload_length_bytes=len(payload), **place
            )
            found[kind.name] = header.pack() + payload
    return found


def _control() -> dict[str, Any]:
    """Return what an agent and its workers tell each other."""
    generation = samples.fixed("", "generation")
    request = dataclasses.asdict(samples.payload(objects.AssignRequest))
    request["bitstream_ref"]["path"] = "path"
    requests = {
        "assign": request,
        "release": {"generation": generation, "reason": "OK"},
        "reissue_secret": {"generation": generation},
        "status": {},
        "exit": {},
    }
    result = dataclasses.asdict(samples.payload(objects.SessionResult))
    status = {
        field.name: samples.value("status", field.name, str)
        for field in dataclasses.fields(slot.WorkerStatus)
        # The agent finds that out itself.
        if field.name != "is_stale"
    }
    numbers = ("seen_generation", "input_bytes", "output_bytes", "data_port")
    status |= {name: samples.value("status", name, int) for name in numbers}
    status |= {"state": "active", "last_result": result, "beyond_claim": True}
    status["previous_result"] = result
    status["programming"] = {
        "generation": samples.value("programming", "generation", int),
        "began_at": samples.value("programming", "began_at", float),
        "ended_at": samples.value("programming", "ended_at", float),
    }
    prepared = {"generation": generation, "secret": "5e" * 32}
    return {
        "requests": [
            messages.request(5, operation, **members)
            for operation, members in requests.items()
        ],
        "answers": [
            messages.reply(5),
            messages.reply(5, status=status),
            messages.error_reply(5, "SLOT_IN_USE", "text"),
            messages.notification("status", status=status),
            messages.notification("prepared", **prepared),
        ],
    }


def _rest() -> dict[str, Any]:
    """Return which members the answers of the REST API have."""
    return {
        f"{route.method} {route.path}": members_of(route.response)
        for route in routes.ROUTES
        if route.response is not None
    }


def members_of(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the members that a schema names, and theirs."""
    found: dict[str, Any] = {}
    for name, inner in schema.get("properties", {}).items():
        found[name] = members_of(inner)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            found |= members_of(schema[name])
    for name in ("anyOf", "oneOf", "allOf"):
        for inner in schema.get(name, ()):
            found |= members_of(inner)
    return found
