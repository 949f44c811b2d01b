# SPDX-License-Identifier: Apache-2.0

"""An accelerator that hides what it gets, and looks for what others hid.

It looks wherever a core could: in itself, in the memory of its board, in its
buffers and behind them, and in all objects of its process. The leaks of
:data:`LEAKS` can be planted into workers and desks while they run, one at a
time: the accelerator must find each.
"""

from __future__ import annotations

import collections.abc
import functools
import gc
import json
import mmap
import os
import pathlib
import typing

from fpgapool.accelerators import base
from tests.harness import planting

_HIDE = b"hide"
_LOOK = b"look"
_FAIL = b"fail"
_MORE_BYTES = 4096

#: What a board keeps until it is cleared: the driver's business.
_BOARD = bytearray()

#: What can be planted, and where a secret must be found then.
LEAKS = {
    "a core stays": "core",
    "the board is not cleared": "board",
    "the room for outputs is not wiped": "output",
    "the input stays in the ring": "ring",
    "results stay in the ring": "objects",
    "the parameters are kept": "objects",
    "the desk does not order to clear": "core",
    "rings of clients are used again": "rings of the program",
    "errors quote data": "the message",
    "logs quote data": "the log",
}


def hide(secret: bytes) -> bytes:
    """Return the input of a task that hides a secret."""
    return _HIDE + secret


def look(secret: bytes) -> bytes:
    """Return the input of a task that looks for a secret.

    Its output is a JSON list of the places where it has found it.
    """
    return _LOOK + _inverted(secret)


def fail(secret: bytes) -> bytes:
    """Return the input of a task that fails with a secret in the error."""
    return _FAIL + secret


def plant(directory: pathlib.Path, leak: str) -> None:
    """Plant a leak, or none, into all processes of a pool."""
    fresh = directory / "leak.new"
    fresh.write_text(leak)
    fresh.replace(directory / "leak")


def _leaks(leak: str) -> bool:
    path = pathlib.Path(os.environ[base.DIRECTORY_VARIABLE], "leak")
    return path.exists() and path.read_text() == leak


def _inverted(data: bytes) -> bytes:
    return bytes(byte ^ 0xFF for byte in data)


class SpyCore(base.Core):
    """The accelerator."""

    def __init__(self, params: collections.abc.Mapping[str, object]) -> None:
        self._seen: list[object] = []
        self._params = dict(params)
        _BOARD.extend(repr(params).encode())

    @property
    def reusable(self) -> bool:
        return True

    def max_output_bytes(self, input_bytes: int) -> int:
        return input_bytes + _MORE_BYTES if input_bytes else 0

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        command, rest = bytes(chunk_in[:4]), bytes(chunk_in[4:])
        if command == _FAIL:
            raise ValueError(rest.hex())
        if command == _LOOK:
            output = json.dumps(self._find(rest, chunk_in, chunk_out)).encode()
            chunk_out[: len(output)] = output
            return len(output)
        self._seen.append(rest)
        _BOARD.extend(rest)
        # More than its output.
        times = len(chunk_out) // len(rest)
        chunk_out[: times * len(rest)] = rest * times
        return len(rest)

    def _find(
        self, inverted: bytes, chunk_in: memoryview, chunk_out: memoryview
    ) -> list[str]:
        secret = _inverted(inverted)
        words = (secret, secret.hex().encode())
        places: dict[str, object] = {
            "core": self._seen,
            "board": _BOARD,
            "output": chunk_out.obj,
            "ring": chunk_in.obj,
        }
        found = [
            name
            for name, place in places.items()
            if _is_among(gc.get_referents(place), words, set())
            or _is_with(place, words)
        ]
        known = {id(one) for one in (secret, *words, *places.values())}
        if any(
            _is_among([one, *gc.get_referents(one)], words, known)
            for one in gc.get_objects()
        ):
            found.append("objects")
        return found


def _is_among(
    objects: collections.abc.Iterable[object],
    words: tuple[bytes, ...],
    known: set[int],
) -> bool:
    """Whether one of some words is in one of some objects.

    :param known: identities of objects that do not count; grows.
    """
    for one in objects:
        if type(one) is memoryview:
            one = one.obj
        if id(one) not in known:
            known.add(id(one))
            if _is_with(one, words):
                return True
    return False


def _is_with(one: object, words: tuple[bytes, ...]) -> bool:
    if type(one) is str:
        return any(word.decode("latin-1") in one for word in words)
    if type(one) in (bytes, bytearray):
        return any(word in typing.cast(bytes, one) for word in words)
    if type(one) is mmap.mmap:
        return any(one.find(word, 0) >= 0 for word in words)
    return False


# What is planted.


def _unless(leak: str, owner: typing.Any, name: str) -> None:
    """Have a method do nothing while a leak is planted."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def leaking(*arguments: typing.Any, **options: typing.Any) -> typing.Any:
        if not _leaks(leak):
            return method(*arguments, **options)
        return None

    setattr(owner, name, leaking)


def _plant_in_worker() -> None:
    from fpgapool.agent.worker import tasks
    from fpgapool.agent.worker.data import processing
    from fpgapool.drivers import emulator

    def scrub(_driver: object, _device: str, _slot: int) -> None:
        _BOARD.clear()

    emulator.EmulatorDriver.scrub = scrub  # type: ignore[method-assign]
    _unless("the board is not cleared", emulator.EmulatorDriver, "clear_task")
    runner, postbox = tasks.Runner, tasks._Postbox
    clear, run, free = runner.clear, runner.run, postbox.free
    wipe, failure = postbox.wipe, processing.Processor._failure

    def clearing(self: typing.Any, *project: object) -> None:
        kept, room = self._kept, self._room
        if _leaks("the room for outputs is not wiped"):
            self._room = memoryview(b"")
        clear(self, *project)
        if _leaks("a core stays"):
            self._kept = kept
        if _leaks("the room for outputs is not wiped"):
            self._room = room

    def running(self: typing.Any, task: typing.Any, most: int) -> typing.Any:
        if _leaks("the parameters are kept") and task.middle:
            self._last_params = bytes(task.middle)
        return run(self, task, most)

    def freeing(self: typing.Any) -> None:
        if _leaks("the input stays in the ring"):
            self._channel.free()
        else:
            free(self)

    def wiping(self: typing.Any) -> None:
        if not _leaks("results stay in the ring"):
            wipe(self)

    def failing(self: typing.Any, exc: Exception, task: typing.Any) -> object:
        if _leaks("logs quote data"):
            processing.LOG.error("core failed: %s", exc)
        if _leaks("errors quote data"):
            return processing.Failure("CORE_FAILED", str(exc))
        return failure(self, exc, task)

    runner.clear, runner.run, postbox.free = clearing, running, freeing
    postbox.wipe = wiping
    processing.Processor._failure = failing


def _plant_in_desk() -> None:
    from fpgapool.agent.groupdesk import ports
    from fpgapool.common.channels import rings

    start = ports.MemberPort.start
    create = rings.Channel.create.__func__
    used: list[memoryview] = []

    def starting(
        self: typing.Any,
        payload: ports.Payload,
        has_blocks: bool,
        clear: bool,
        scope: tuple[str, str],
        now: float,
    ) -> bool:
        if _leaks("the desk does not order to clear"):
            clear = False
        return start(self, payload, has_blocks, clear, scope, now)

    def creating(
        kind: typing.Any,
        size_bytes: int,
        incoming_bytes: int | None = None,
        *,
        stranger: bool = False,
    ) -> typing.Any:
        made = create(kind, size_bytes, incoming_bytes, stranger=stranger)
        if stranger:
            if used and _leaks("rings of clients are used again"):
                made._outgoing._data[:] = used[0]
            used.append(made._outgoing._data)
        return made

    ports.MemberPort.start = starting
    rings.Channel.create = classmethod(creating)


if planting.is_process(planting.PARENT):
    _plant_in_worker()
    _plant_in_desk()
elif planting.is_process(planting.WORKER):
    _plant_in_worker()
elif planting.is_process(planting.DESK):
    _plant_in_desk()
