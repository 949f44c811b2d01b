# SPDX-License-Identifier: Apache-2.0

"""Inputs in threads of their own, computed by this machine."""

from __future__ import annotations

import asyncio
import collections.abc
import concurrent.futures
import hashlib
import threading
import typing
import weakref

import numpy as np
import pytest

from fpgapool import client
from fpgapool.client import arrays
from fpgapool.client import cancel as cancelling

TIMEOUT_S = 30.0
CPU: dict[str, typing.Any] = {
    "front_door": "/nonexistent",
    "fallback": "cpu",
}


def test_outputs_come_in_order() -> None:
    inputs = [bytes([number]) * number for number in range(9)]
    found = client.map("sha", iter(inputs), sessions=3, **CPU)
    expected = [hashlib.sha256(each).digest() for each in inputs]
    assert list(found) == expected
    assert list(client.map("sha", [], **CPU)) == []


def test_arrays_and_bytes() -> None:
    frames = [np.ones((rows, 8), np.complex64) for rows in range(3)]
    for frame, found in zip(
        frames, client.map("fft", frames, **CPU), strict=True
    ):
        assert np.allclose(found, np.fft.fft(frame))
    (found,) = client.map("fft", [frames[1].tobytes()], frame_samples=8, **CPU)
    assert found == np.fft.fft(frames[1]).astype("c8").tobytes()


class Bench:
    """Inputs that run until the test lets them end."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.running: dict[object, cancelling.CancelToken] = {}
        self._ended: set[object] = set()

    def run(
        self,
        call: arrays.Call,
        data: object,
        timeout_s: float | None,
        cancel: cancelling.CancelToken,
    ) -> object:
        with self._changed:
            self.running[data] = cancel
            self._changed.notify_all()
        cancel.attach(typing.cast(typing.Any, self))
        with self._changed:
            assert self._changed.wait_for(
                lambda: data in self._ended or cancel.cancelled, TIMEOUT_S
            )
            del self.running[data]
            self._changed.notify_all()
        cancel.check()
        return data

    def shutdown(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def end(self, *inputs: object) -> None:
        with self._changed:
            self._ended.update(inputs)
            self._changed.notify_all()

    def await_running(self, *inputs: object) -> None:
        with self._changed:
            assert self._changed.wait_for(
                lambda: set(self.running) == set(inputs), TIMEOUT_S
            ), self.running


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Give a bench in place of all sessions."""
    made = Bench()
    monkeypatch.setattr(
        arrays.Call, "run", lambda call, *given: made.run(call, *given)
    )
    return made


def test_inputs_are_read_as_sessions_end(bench: Bench) -> None:
    read = []

    def inputs() -> collections.abc.Iterator[int]:
        for number in range(100):
            read.append(number)
            yield number

    outputs = client.map("copy", inputs(), sessions=2)
    assert read == []
    bench.end(1, 0)
    assert next(outputs) == 0
    assert read == [0, 1]
    bench.end(2)
    assert next(outputs) == 1
    assert read == [0, 1, 2]
    # Those that run are ended with the iterator.
    bench.end(3)
    assert next(outputs) == 2
    assert read == [0, 1, 2, 3]
    typing.cast(typing.Any, outputs).close()
    bench.await_running()
    assert read == [0, 1, 2, 3]


def test_memory_is_bounded(bench: Bench) -> None:
    class Input:
        pass

    alive: weakref.WeakSet[Input] = weakref.WeakSet()

    def inputs() -> collections.abc.Iterator[Input]:
        for _ in range(20):
            made = Input()
            alive.add(made)
            bench.end(made)
            assert len(alive) <= 22
            yield made

    del bench._ended
    bench._ended = typing.cast(typing.Any, weakref.WeakSet())
    most = 0
    for output in client.map("copy", inputs(), sessions=2):
        del output
        most = max(most, len(alive))
    assert most <= 4


def test_the_failed_input_is_named(bench: Bench) -> None:
    token = client.CancelToken()
    outputs = client.map("copy", "abc", sessions=3, cancel=token)
    bench.end("a")
    assert next(outputs) == "a"
    bench.await_running("b", "c")
    token.cancel()
    with pytest.raises(client.Cancelled) as caught:
        next(outputs)
    assert caught.value.index == 1
    assert caught.value.__notes__ == ["input 1 of map()"]
    bench.await_running()


def test_other_errors_have_a_note() -> None:
    outputs = client.map("fft", [np.ones(4, "c8"), np.ones(4)], **CPU)
    next(outputs)
    with pytest.raises(client.InvalidRequest) as caught:
        next(outputs)
    assert (caught.value.code, caught.value.index) == ("INVALID_INPUT", 1)
    assert list(outputs) == []

    def broken() -> collections.abc.Iterator[bytes]:
        yield b""
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        list(client.map("copy", broken(), **CPU))


@pytest.mark.parametrize(
    "named",
    [
        {"sessions": 0},
        {"sessions": True},
        {"sessions": 2.0},
        {"request_id": "one"},
        {"timeout_s": -1},
        {"params": 3},
        {"key": object()},
    ],
)
def test_wrong_arguments_fail_at_once(named: dict[str, typing.Any]) -> None:
    with pytest.raises(client.InvalidRequest):
        client.map("copy", [b"x"], **named)


def test_misspelt_names_fail_at_once() -> None:
    with pytest.raises(TypeError, match=r"map\(\) got an .*'sesions'"):
        client.map("copy", [b"x"], sesions=3, **CPU)
    future = client.submit("copy", b"x", prioritty=3, **CPU)
    with pytest.raises(TypeError, match=r"submit\(\) got an .*'prioritty'"):
        future.result(TIMEOUT_S)


def test_futures_have_the_output_or_the_error() -> None:
    good = client.submit("copy", b"abc", **CPU)
    bad = client.submit("fft", np.ones(3), **CPU)
    assert good.result(TIMEOUT_S) == b"abc"
    with pytest.raises(client.InvalidRequest):
        bad.result(TIMEOUT_S)
    with pytest.raises(client.InvalidRequest):
        client.submit("copy", b"abc", timeout_s=0)


def test_a_cancelled_future_ends_its_session(bench: Bench) -> None:
    future = client.submit("copy", "a")
    bench.await_running("a")
    assert future.cancel()
    bench.await_running()
    assert concurrent.futures.wait([future], TIMEOUT_S).done == {future}
    with pytest.raises(concurrent.futures.CancelledError):
        future.result()
    done = client.submit("copy", "b")
    bench.end("b")
    assert done.result(TIMEOUT_S) == "b"
    assert not done.cancel()


@pytest.mark.parametrize("kind", [threading.Event, client.CancelToken])
def test_the_callers_token_counts_too(
    bench: Bench, kind: type[threading.Event] | type[client.CancelToken]
) -> None:
    token = kind()
    future = client.submit("copy", "a", cancel=token)
    bench.await_running("a")
    if isinstance(token, threading.Event):
        token.set()
    else:
        token.cancel()
    with pytest.raises(client.Cancelled):
        future.result(TIMEOUT_S)
    late = client.submit("copy", "b", cancel=token)
    with pytest.raises(client.Cancelled):
        late.result(TIMEOUT_S)


def test_tasks_of_asyncio(bench: Bench) -> None:
    async def run() -> list[object]:
        waiting = [
            asyncio.wrap_future(client.submit("copy", each)) for each in "abc"
        ]
        await asyncio.to_thread(bench.await_running, *"abc")
        waiting[1].cancel()
        await asyncio.to_thread(bench.await_running, *"ac")
        bench.end(*"ac")
        return await asyncio.gather(*waiting, return_exceptions=True)

    first, second, third = asyncio.run(run())
    assert (first, third) == ("a", "c")
    assert isinstance(second, asyncio.CancelledError)
