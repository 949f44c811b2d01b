# SPDX-License-Identifier: Apache-2.0

"""A chain that can go on is never taken for stalled.

Events order the threads, so that each look comes at the moment that matters.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest

from fpgapool import client
from fpgapool.client.chains import stage as stages
from fpgapool.client.sessions import pieces
from fpgapool.vocabulary import codes
from tests.harness import chained

WINDOW_BYTES = chained.WINDOW_CHUNKS * chained.CHUNK_BYTES
#: As many fill a window.
PIECES = WINDOW_BYTES // chained.PIECE_BYTES


class CopyCore(chained.StretchCore):
    def process(self, chunk_in, chunk_out, offset_bytes) -> int:
        self._tick()
        chunk_out[: len(chunk_in)] = chunk_in
        return len(chunk_in)


class FewCore(chained.StretchCore):
    """Has so little output that only a whole window fills 1000 bytes."""

    OUTPUT_BYTES = 999 // (PIECES - 1)

    def process(self, chunk_in, chunk_out, offset_bytes) -> int:
        self._tick()
        chunk_out[: self.OUTPUT_BYTES] = chunk_in[: self.OUTPUT_BYTES]
        return self.OUTPUT_BYTES


class DropCore(FewCore):
    OUTPUT_BYTES = 1


def on_look(
    monkeypatch: pytest.MonkeyPatch,
    events: dict[threading.Event, Callable[[stages.StageFlow], object]],
) -> None:
    """Set an event after each look at a stage that is as the event wants."""
    look = stages.StageFlow.check_stalled

    def looked(flow: stages.StageFlow) -> None:
        seen = [event for event, wants in events.items() if wants(flow)]
        try:
            look(flow)
        finally:
            for event in seen:
                event.set()

    monkeypatch.setattr(stages.StageFlow, "check_stalled", looked)


def has_output(flow: stages.StageFlow, number: int, size_bytes: int) -> bool:
    """Whether that is the stage, and it has so much output."""
    hop = flow.hop_out
    return (
        flow.number == number
        and hop is not None
        and hop.cutter.seen_bytes == size_bytes
    )


def rests(flow: stages.StageFlow) -> bool:
    """Whether the next stage has settled all that it was told of."""
    hop = flow.hop_out
    return hop is not None and hop.receiver.window.idle and not hop.waiting


def test_a_stage_that_will_settle_when_it_has_a_slot_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first stage's window is full, and it is lost. Meanwhile the others
    settle its output, so that it only has to settle its input.
    """
    full, processed, lost, looked = (threading.Event() for _ in range(4))
    limit_s = chained.LIMIT_S

    class HoldCore(CopyCore):
        def process(self, chunk_in, chunk_out, offset_bytes) -> int:
            if not offset_bytes:
                assert full.wait(limit_s)
                assert processed.wait(limit_s)
                chain.slots[0].lose()
                assert lost.wait(limit_s)
            return super().process(chunk_in, chunk_out, offset_bytes)

    reopen = chained._Seeker.reopen

    def reopened(seeker, *arguments):
        lost.set()
        assert looked.wait(limit_s)
        return reopen(seeker, *arguments)

    monkeypatch.setattr(chained._Seeker, "reopen", reopened)
    on_look(
        monkeypatch,
        {
            full: lambda flow: flow.window.wanted_bytes is not None,
            processed: lambda flow: has_output(flow, 2, WINDOW_BYTES),
            looked: lambda flow: (
                has_output(flow, 2, WINDOW_BYTES) and rests(flow)
            ),
        },
    )
    chain = chained.Chain(
        [
            chained.Kind(CopyCore),
            chained.Kind(CopyCore),
            chained.Kind(HoldCore, multiple_bytes=1000),
        ],
        {},
    )
    data = random.Random(1).randbytes(3 * WINDOW_BYTES)
    assert chain.run(data) == data
    assert looked.is_set()


def test_a_piece_with_a_buffer_does_not_wait_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Somebody looks when a piece has taken the last buffer, and is not sent.

    It is the one that completes a piece of the next stage.
    """
    processed, looked = threading.Event(), threading.Event()
    before_bytes = WINDOW_BYTES - chained.PIECE_BYTES
    send = chained._Flow.send

    def sent(flow, *arguments, **options) -> None:
        added_bytes = flow.window.input.added_bytes
        if flow.number == 2 and added_bytes == before_bytes:
            assert processed.wait(chained.LIMIT_S)
            flow.check_stalled()
            looked.set()
        send(flow, *arguments, **options)

    monkeypatch.setattr(chained._Flow, "send", sent)
    few_bytes = (PIECES - 1) * FewCore.OUTPUT_BYTES
    on_look(
        monkeypatch,
        {processed: lambda flow: has_output(flow, 2, few_bytes)},
    )
    kinds = [
        chained.Kind(CopyCore),
        chained.Kind(FewCore),
        chained.Kind(CopyCore, multiple_bytes=1000),
    ]
    found = chained.Chain(kinds, {}).run(bytes(2 * WINDOW_BYTES))
    assert found == bytes(2 * PIECES * FewCore.OUTPUT_BYTES)
    assert looked.is_set()


def test_a_look_sees_all_stages_at_one_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While somebody looks, no stage can change."""
    taken: list[bool] = []

    def take() -> None:
        for flow in chain.flows:
            lock = flow.window.lock._lock
            taken.append(lock.acquire(blocking=False))
            if taken[-1]:
                lock.release()

    def idle(window: pieces.Window) -> bool:
        thread = threading.Thread(target=take)
        thread.start()
        thread.join()
        return not window.input.kept

    monkeypatch.setattr(pieces.Window, "idle", property(idle))
    chain = chained.Chain([chained.Kind(CopyCore)] * 3, {})
    data = bytes(2 * WINDOW_BYTES)
    assert chain.run(data) == data
    assert taken
    assert not any(taken)


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_stall_is_told_after_a_loss(lost: int) -> None:
    kinds = [
        chained.Kind(CopyCore),
        chained.Kind(DropCore),
        chained.Kind(CopyCore, multiple_bytes=1000),
    ]
    chain = chained.Chain(kinds, {PIECES: (chained.KILL, lost)})
    with pytest.raises(client.FpgapoolError) as caught:
        chain.run(bytes(3 * WINDOW_BYTES))
    assert caught.value.code == codes.CHAIN_STALLED
    assert caught.value.stage == 2
    assert f"{WINDOW_BYTES} bytes of input have only {PIECES}" in str(
        caught.value
    )
    assert chain.counts[chained.KILL] == 1
