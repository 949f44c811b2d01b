# SPDX-License-Identifier: Apache-2.0

"""What no well-behaved program sends to front doors, workers and the bus.

Strategies of it, and what it is made of: messages, frames and payloads in
which nothing is wrong.
"""

from __future__ import annotations

import contextlib
import inspect
import typing
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from fpgapool import objects
from fpgapool.objects import base
from fpgapool.protocol import frames
from tests.harness import wire
from tests.property import fuzzing

# -- the front door ----------------------------------------------------------

_OPEN = {
    "op": "open",
    "id": 1,
    "request_id": "r",
    "accelerator": "copy",
    "size_bytes": 1000,
    "priority": 0,
    "wait_timeout_s": 5.0,
    "connect_timeout_s": 5,
    "resume_grace_s": None,
}
_NAMED = {"id": 3, "session_id": "0-1", "request_id": "r", "generation": 1}
_REQUESTS = [
    _OPEN,
    {"op": "hello", "id": 2, "version": 1},
    {"op": "accelerator", "id": 4, "name": "aes"},
    {"op": "accelerators", "id": 5},
    {"op": "pool", "id": "six"},
    {"op": "dry_run", "id": 7, "accelerator": "aes", "size_bytes": 1},
    *({"op": name, **_NAMED} for name in ("get", "cancel", "connect")),
    {"op": "reopen", **_NAMED},
]
#: What an answer repeats, and can be too long for one.
NUMBERS = ("x" * 65_500, 1e999, [1], {}, 10**300, True)
_ODD = [{"op": "hello", "id": number} for number in NUMBERS[1:]]

_DOCUMENTS = (
    st.sampled_from(_REQUESTS).flatmap(fuzzing.documents)
    | st.sampled_from(_ODD)
    | st.sampled_from(_REQUESTS)
)
#: Of messages to a front door.
DOOR_STREAMS = st.lists(_DOCUMENTS, min_size=1, max_size=4).flatmap(
    lambda documents: fuzzing.streams([fuzzing.message(d) for d in documents])
)


# -- the worker --------------------------------------------------------------

#: Of a first connection.
HELLO = {
    "features": ["checksum"],
    "session_id": "s",
    "generation": 1,
    "transport": "stream",
    "secret": "00" * 32,
    "params": {"key": "00"},
    "input_offset": 0,
    "start_input_offset": 0,
}


def session(hello: Mapping[str, Any], inputs: list[bytes]) -> list[bytes]:
    """Return the frames of a session without fault.

    :param inputs: payloads of its INPUT frames.
    """
    sent = [frames.encode_frame(frames.FrameHeader(frames.HELLO), hello)]
    offset = hello.get("start_input_offset", 0)
    for number, data in enumerate(inputs):
        sent.append(
            frames.pack_header(
                frames.INPUT, 0, 0, number + 1, offset, len(data)
            )
            + data
        )
        offset = (offset + len(data)) % 2**64
    sent.append(frames.pack_header(frames.PING, task_id=7))
    sent.append(frames.pack_header(frames.CLOSE))
    return sent


#: Of a session.
INPUTS = st.lists(st.binary(min_size=1, max_size=60), max_size=4)


def session_streams(hello: Mapping[str, Any]) -> st.SearchStrategy[bytes]:
    """Give streams of sessions that are damaged somewhere."""
    return INPUTS.flatmap(
        lambda inputs: fuzzing.streams(session(hello, inputs))
    )


def sent_input(data: bytes, chunk_bytes: int) -> bytes:
    """Return the input in a stream, up to what is no frame."""
    found = []
    with contextlib.suppress(frames.ProtocolError):
        for frame in wire.iterate(data, chunk_bytes):
            found.append(frame)
    return _payloads(found, frames.INPUT)


def output(answer: bytes, chunk_bytes: int) -> bytes:
    """Return the output; what a worker says is always well formed.

    :param answer: all that it has said.
    :raises frames.ProtocolError: if it is not.
    """
    said = wire.read(answer, chunk_bytes)
    return _payloads(said, frames.OUTPUT)


def _payloads(some: list[wire.Frame], kind: int) -> bytes:
    return b"".join(one.payload for one in some if one.header.type == kind)


# -- the bus -----------------------------------------------------------------

#: Everything that is told by RPC.
PAYLOADS = {
    name: one
    for name, one in vars(objects).items()
    if isinstance(one, type) and one is not objects.Payload
}


def sound(cls: type[base.Payload]) -> dict[str, Any]:
    """Return the form of some payload."""
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
        return sound(type_)
    origin = getattr(type_, "__origin__", None)
    if origin is tuple:
        return [_sound_value(options[0])]
    if origin is dict or type_ is dict:
        return {"a": 1}
    if options:
        return _sound_value(options[0])
    return {str: "x", int: 1, float: 1.5, bool: True}[type_]


#: Changes of bitstreams have forms of their own.
CHANGES = [
    sound(cls) for name, cls in PAYLOADS.items() if name.endswith("Bitstream")
]


def methods(endpoint: type) -> dict[str, list[str]]:
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


@st.composite
def arguments(
    draw: st.DrawFn, names: list[str], known: Mapping[str, Any]
) -> dict[str, Any]:
    """Give arguments of a method, of which some make no sense.

    :param known: values that make sense, by names.
    """
    right = {name: known.get(name) for name in names}
    if "change" in right:
        right["change"] = draw(st.sampled_from(CHANGES))
    if not right:
        return {}
    return dict.fromkeys(names) | draw(fuzzing.documents(right))
