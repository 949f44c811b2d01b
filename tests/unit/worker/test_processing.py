# SPDX-License-Identifier: Apache-2.0

"""Pieces that a core has before the ones before them are collected."""

import pytest

from fpgapool.accelerators import base as accelerators
from fpgapool.agent.worker.data import processing
from fpgapool.vocabulary import codes


class Core(accelerators.Core):
    """Computes when a piece is collected.

    :ivar done: what was called, with the offset of the piece.
    """

    def __init__(self, params):
        self.done = []

    @property
    def max_started(self):
        return 2

    def start(self, chunk_in, chunk_out, offset_bytes):
        self.done.append(("start", offset_bytes))
        if offset_bytes == 8:
            raise accelerators.InvalidInput("8 is wrong")
        return super().start(chunk_in, chunk_out, offset_bytes)

    def process(self, chunk_in, chunk_out, offset_bytes):
        self.done.append(("process", offset_bytes))
        chunk_out[: len(chunk_in)] = chunk_in
        return len(chunk_in)


@pytest.fixture
def processor():
    return processing.Processor(Core({}), accelerators.load_profile("copy"))


def start(processor, offset_bytes, end=False):
    view = memoryview(b"%04d" % offset_bytes)
    room = memoryview(bytearray(4))
    task = processing.Task(offset_bytes, offset_bytes, view, end)
    processor.start(task, room)
    return task, room


def test_pieces_are_collected_in_the_order_of_their_start(processor):
    started = [start(processor, offset) for offset in (0, 4)]
    assert not processor.may_start(2)
    for task, room in started:
        assert processor.collect() == (task, 4)
        assert room == task.view
    assert processor.core.done == [
        *(("start", 0), ("start", 4)),
        *(("process", 0), ("process", 4)),
    ]


def test_nothing_is_started_behind_the_end(processor):
    assert processor.may_start(2)
    start(processor, 0)
    assert processor.may_start(2)
    assert not processor.may_start(1)
    processor.collect()
    start(processor, 4, end=True)
    assert not processor.may_start(2)


def test_a_piece_that_fails_leaves_the_one_before(processor):
    task, _ = start(processor, 4)
    start(processor, 8)
    assert processor.collect() == (task, 4)
    with pytest.raises(processing.Failure) as caught:
        processor.collect()
    assert caught.value.code == "INVALID_INPUT"
    assert not processor.started


def _fail(*_arguments, **_members):
    raise MemoryError


def test_a_core_without_memory_ends_its_session(processor, monkeypatch):
    monkeypatch.setattr(processor.core, "process", _fail)
    start(processor, 0)
    with pytest.raises(processing.Failure) as caught:
        processor.collect()
    assert caught.value.code == codes.OUT_OF_MEMORY


def test_only_the_beginning_of_what_a_core_says_is_told(
    processor, monkeypatch
):
    """An agent drops a worker that says more than fits."""

    def refuse(*_arguments, **_members):
        raise accelerators.InvalidInput("not \n" + "é" * 100_000)

    monkeypatch.setattr(processor.core, "set_argument", refuse)
    with pytest.raises(processing.Failure) as caught:
        processor.set_argument(1, memoryview(b""))
    assert caught.value.code == codes.INVALID_INPUT
    assert caught.value.message.startswith("not é")
    assert len(caught.value.message) <= 1000


@pytest.mark.parametrize("method", ["restore", "set_argument"])
def test_state_and_arguments_without_memory_end_it_too(
    processor, monkeypatch, method
):
    monkeypatch.setattr(processor.core, method, _fail)
    calls = {
        "restore": lambda: processor.restore(bytes(4), 0),
        "set_argument": lambda: processor.set_argument(1, memoryview(b"")),
    }
    with pytest.raises(processing.Failure) as caught:
        calls[method]()
    assert caught.value.code == codes.OUT_OF_MEMORY


def test_what_is_dropped_is_awaited(processor):
    start(processor, 8)
    start(processor, 4)
    processor.drop()
    assert not processor.started
    assert processor.core.done[-1] == ("process", 4)
