# SPDX-License-Identifier: Apache-2.0

"""A chain's bytes arrive once and in order, whatever is lost on the way.

Flows and workers are the product's own, in this process. Slots are killed,
and connections and links break, after a number of pieces that chance draws.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from fpgapool import client
from fpgapool.agent.worker.data import feeding
from fpgapool.agent.worker.data import links
from fpgapool.client import aio
from fpgapool.client.chains import cutting
from fpgapool.client.chains import stage
from fpgapool.client.links import connection
from fpgapool.vocabulary import codes
from tests.harness import cases
from tests.harness import chained

SEEDS = cases.some(range(6), lambda seed: seed < 3)
PIECES = 80
STRIKES = 8

SHM = connection.SHM


def _kinds(rng: random.Random) -> list[chained.Kind]:
    return [
        chained.Kind(
            rng.choice([chained.StretchCore, chained.PieceCore]),
            rng.choice([1, 1, 16, 1000]),
            rng.choice([connection.STREAM, SHM]),
        )
        for _ in range(rng.randint(2, 4))
    ]


def _plan(rng: random.Random, stages: int) -> chained.Plan:
    # All stages process pieces, so all strikes find something to strike.
    return {
        rng.randint(2, PIECES): (
            rng.choice([chained.KILL, chained.KILL, chained.CUT]),
            rng.randrange(stages),
        )
        if rng.random() < 0.8
        else (chained.UNLINK, rng.randrange(1, stages))
        for _ in range(STRIKES)
    }


def _differs(seed: int, limit_s: float = chained.LIMIT_S) -> str:
    """Compare a chain that loses much with one that loses nothing.

    :returns: what is wrong; empty: nothing.
    """
    rng = random.Random(seed)
    kinds = _kinds(rng)
    data = rng.randbytes(PIECES * chained.PIECE_BYTES - rng.randrange(1024))
    expected = chained.Chain(kinds, {}).run(data)
    try:
        found = chained.Chain(kinds, _plan(rng, len(kinds))).run(data, limit_s)
    except client.FpgapoolError as error:
        return repr(error)
    return "" if found == expected else "the output differs"


@pytest.mark.parametrize("seed", SEEDS)
def test_every_byte_arrives_once_and_in_order(seed: int) -> None:
    assert _differs(seed) == ""


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_do_what_threads_do(seed: int) -> None:
    rng = random.Random(f"tasks {seed}")
    kinds = _kinds(rng)
    data = rng.randbytes(PIECES * chained.PIECE_BYTES - rng.randrange(1024))
    expected = chained.Chain(kinds, {}).run(data)
    chain = chained.Chain(kinds, _plan(rng, len(kinds)))
    cpu_bytes = rng.choice([None, rng.randrange(len(data))])

    async def run() -> bytes:
        return await aio._run(
            lambda: chain.run(data, cpu_bytes=cpu_bytes), chain.token
        )

    assert asyncio.run(run()) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_slots_go_on_where_the_cpu_has_ended(seed: int) -> None:
    rng = random.Random(f"meanwhile {seed}")
    kinds = _kinds(rng)
    data = rng.randbytes(PIECES * chained.PIECE_BYTES - rng.randrange(1024))
    expected = chained.Chain(kinds, {}).run(data)
    plan = _plan(rng, len(kinds)) if seed % 2 else {}
    for cpu_bytes in (0, rng.randrange(len(data)), len(data) - 1):
        found = chained.Chain(kinds, plan).run(data, cpu_bytes=cpu_bytes)
        assert found == expected, cpu_bytes


@pytest.mark.parametrize("size_bytes", [0, 5000])
def test_the_cpu_computes_all(size_bytes: int) -> None:
    kinds = [chained.Kind(multiple_bytes=16), chained.Kind()]
    data = random.Random(2).randbytes(size_bytes)
    found = chained.Chain(kinds, {}).run(data, cpu_bytes=10**9)
    assert found == chained.stretched(chained.stretched(data))


@pytest.mark.parametrize("transport", [connection.STREAM, SHM])
def test_the_output_is_that_of_the_accelerators(transport: str) -> None:
    kinds = [
        chained.Kind(multiple_bytes=multiple, transport=transport)
        for multiple in (1, 16)
    ]
    data = random.Random(1).randbytes(PIECES * chained.PIECE_BYTES)
    first = chained.stretched(data)
    assert chained.Chain(kinds, {}).run(data) == chained.stretched(first)


@pytest.mark.parametrize(
    "transports", [(connection.STREAM, SHM), (SHM, connection.STREAM)]
)
def test_the_last_stage_comes_to_this_host_and_leaves_it(transports) -> None:
    kinds = [
        chained.Kind(),
        chained.Kind(
            transport=transports[0],
            later_transport=transports[1],
        ),
    ]
    data = random.Random(3).randbytes(PIECES * chained.PIECE_BYTES)
    chain = chained.Chain(kinds, {PIECES // 2: (chained.KILL, 1)})
    assert chain.run(data) == chained.stretched(chained.stretched(data))
    assert chain.counts[chained.KILL] == 1


def test_no_input_has_no_output() -> None:
    assert chained.Chain([chained.Kind()] * 8, {}).run(b"") == b""


def test_all_input_counts_though_a_stage_does_not_hear_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its connection may be lost when the last stage has all output."""
    monkeypatch.setattr(stage.StageFlow, "settle", lambda _flow: None)
    chain = chained.Chain([chained.Kind()] * 3, {})
    data = bytes(2 * chained.PIECE_BYTES)
    output = chain.run(data)
    assert output == chained.stretched(
        chained.stretched(chained.stretched(data))
    )
    assert chain.flows[0].acknowledged_bytes == len(data)
    assert all(
        flow.acknowledged_bytes == before.received_bytes
        for before, flow in zip(chain.flows, chain.flows[1:], strict=False)
    )


class DropCore(chained.StretchCore):
    """Has one byte of output for each piece."""

    def process(self, chunk_in, chunk_out, offset_bytes) -> int:
        chunk_out[:1] = chunk_in[:1]
        return 1


@pytest.mark.parametrize("before", [0, 2])
def test_output_that_never_fills_a_piece_is_no_endless_wait(
    before: int,
) -> None:
    kinds = [
        *[chained.Kind()] * before,
        chained.Kind(DropCore),
        chained.Kind(multiple_bytes=1000),
    ]
    with pytest.raises(client.FpgapoolError) as caught:
        chained.Chain(kinds, {}).run(bytes(PIECES * chained.PIECE_BYTES))
    assert caught.value.code == codes.CHAIN_STALLED
    assert caught.value.stage == before + 1


def _settle_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget input as soon as a worker has processed it."""
    taken = stage._Processed
    monkeypatch.setattr(
        stage, "_Processed", lambda end, task, _output: taken(end, task, 0)
    )


def _acknowledge_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Acknowledge output that the next stage has only been told of."""
    release = stage.StageFlow._release

    def released(self: stage.StageFlow) -> bytes:
        if self.hop_out is None:
            return release(self)
        offset_bytes = self._output.consumed_bytes
        self._output.acknowledged_bytes = offset_bytes
        return stage.frames.pack_header(
            stage.frames.ACK, offset_bytes=offset_bytes
        )

    monkeypatch.setattr(stage.StageFlow, "_release", released)


def _start_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a link go on behind a piece that has not arrived completely."""
    admit = feeding._admit

    def admitted(session, channel) -> int:
        admit(session, channel)
        return session.input.received_bytes

    monkeypatch.setattr(feeding, "_admit", admitted)


def _start_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a link begin with all that the sender keeps."""

    def position(channel, deadline_s) -> int:
        found = links_position(channel, deadline_s)
        return max(0, found - chained.CHUNK_BYTES)

    links_position = links._position
    monkeypatch.setattr(links, "_position", position)


def _cut_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Announce repeated output once more."""
    add = cutting.Cutter.add

    def added(self, seen_bytes, *, last, end):
        cuts = add(self, seen_bytes, last=last, end=end)
        if not cuts and last and not end and self.cut_bytes:
            return [cutting.Cut(self._multiple_bytes, False)]
        return cuts

    monkeypatch.setattr(cutting.Cutter, "add", added)


@pytest.mark.parametrize(
    "plant",
    [
        _settle_at_once,
        _acknowledge_at_once,
        _start_behind,
        _start_early,
        _cut_again,
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The comparison shows each bug, with one seed or another."""
    rng = random.Random(1)
    kinds = [chained.Kind(chained.PieceCore)] * 3
    data = rng.randbytes(PIECES * chained.PIECE_BYTES)
    expected = chained.Chain(kinds, {}).run(data)
    plant(monkeypatch)
    for seed in range(20):
        plan = _plan(random.Random(seed), len(kinds))
        try:
            if chained.Chain(kinds, plan).run(data, 2.0) != expected:
                return
        except client.FpgapoolError:
            return
    pytest.fail("the bug was not found")
