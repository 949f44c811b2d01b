# SPDX-License-Identifier: Apache-2.0

"""Chains without a pool: the product's flows and workers in this process.

Sockets join them. A plan says what is lost, and when: it counts the pieces
that cores process, so that nothing depends on time.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import socket
import threading
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from unittest import mock

from fpgapool import client
from fpgapool.accelerators import base
from fpgapool.agent.child import port as ports
from fpgapool.agent.worker import desk as desks
from fpgapool.agent.worker import hello as hellos
from fpgapool.agent.worker import settings
from fpgapool.agent.worker import state
from fpgapool.agent.worker.data import blocks
from fpgapool.client.chains import checking
from fpgapool.client.chains import meanwhile
from fpgapool.client.chains import stage as stages
from fpgapool.client.chains import transfer
from fpgapool.client.doors import view as views
from fpgapool.client.links import connection as connections
from fpgapool.client.sessions import session as sessions
from fpgapool.client.sessions import software
from fpgapool.client.transfers import feeding
from fpgapool.client.transfers import sinks
from fpgapool.common.channels import channel
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.worker import machine_steps

LIMIT_S = 60.0
CHUNK_BYTES = 4096
WINDOW_CHUNKS = 4

#: Length of a piece of a long input.
PIECE_BYTES = 1024

KILL, CUT, UNLINK = "kill", "cut", "unlink"

#: What happens after so many pieces, and to the slot of which stage.
Plan = Mapping[int, tuple[str, int]]


class StretchCore(base.Core):
    """Has 0 to 2 bytes of output for each byte, which depend on its place."""

    def __init__(self, tick: Callable[[], None], multiple_bytes: int) -> None:
        self._tick = tick
        self._multiple_bytes = multiple_bytes

    @property
    def chunk_multiple_bytes(self) -> int:
        return self._multiple_bytes

    def max_output_bytes(self, input_bytes: int) -> int:
        return 2 * input_bytes

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        self._tick()
        output = stretched(bytes(chunk_in), offset_bytes)
        chunk_out[: len(output)] = output
        return len(output)


def stretched(data: bytes, offset_bytes: int = 0) -> bytes:
    """Return the output of a :class:`StretchCore`."""
    return b"".join(
        bytes([byte ^ (offset_bytes + number) % 251])
        * ((offset_bytes + number) * 7 % 3)
        for number, byte in enumerate(data)
    )


class PieceCore(StretchCore):
    """Puts the length of each piece before it, as gzip has members."""

    def max_output_bytes(self, input_bytes: int) -> int:
        return input_bytes + 4

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        self._tick()
        size_bytes = len(chunk_in)
        chunk_out[:4] = size_bytes.to_bytes(4, "big")
        chunk_out[4 : 4 + size_bytes] = chunk_in
        return 4 + size_bytes


@dataclasses.dataclass(frozen=True)
class Kind:
    """What a stage is.

    :ivar transport: ``shm`` or ``stream``, of the client's connection if it is
        the last one.
    """

    core: type[StretchCore] = StretchCore
    multiple_bytes: int = 1
    transport: str = connections.STREAM


class Slot:
    """One worker's data plane, for one assignment."""

    def __init__(self, chain: Chain, number: int, generation: int) -> None:
        self.number = number
        self.generation = generation
        self.is_lost = False
        self._chain = chain
        self._ends: list[tuple[str, socket.socket]] = []
        self.events: list[object] = []
        driver = mock.Mock()
        kind = chain.kinds[number]
        driver.open = lambda *_: kind.core(chain.tick, kind.multiple_bytes)
        self._server = desks.SessionServer(
            dataclasses.replace(
                settings.parse(json.dumps(machine_steps.SETTINGS)),
                chunk_bytes=CHUNK_BYTES,
                window_chunks=WINDOW_CHUNKS,
                send_timeout_s=LIMIT_S,
            ),
            driver,
            self.events.append,
            blocks.BlockCache(0),
            chain,
        )
        order = state.Order(
            f"s{number}",
            generation,
            "p",
            "copy",
            "builtin:copy",
            connect_timeout_s=LIMIT_S,
            resume_grace_s=LIMIT_S,
        )
        self._server.arm(order, base.load_profile("copy"))
        secret = self._server.mint(order, anew=True)
        self.view = views.SessionView(
            f"s{number}", states.READY, generation=generation, secret=secret
        )

    def connect(self, what: str) -> socket.socket:
        """Connect to its data port.

        :raises channel.ChannelClosed: if the slot is lost.
        """
        here, there = socket.socketpair()
        with self._chain.lock:
            if self.is_lost:
                here.close()
                there.close()
                raise channel.ChannelClosed("the worker is gone")
            self._ends.append((what, there))
        threading.Thread(target=self._serve, args=[there], daemon=True).start()
        return here

    def _serve(self, sock: socket.socket) -> None:
        data = channel.PlainChannel(sock)
        try:
            header = channel.recv_header(data, bytearray(frames.HEADER_BYTES))
            payload = channel.recv_payload(data, header)
            hello = hellos.parse(frames.decode_json(payload))
            self._server.serve(hello, data, True)
        except ports.Refused as refused:
            with contextlib.suppress(channel.ChannelClosed):
                data.send(frames.error_frame(refused.code, refused.message))
            data.close()
        except OSError:
            data.close()

    def cut(self, what: str) -> None:
        """Break the connections of a kind; ``""``: all."""
        with self._chain.lock:
            ends = [one for kind, one in self._ends if what in ("", kind)]
        for one in ends:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def lose(self) -> None:
        """End as a killed process does: nothing more is sent."""
        with self._chain.lock:
            self.is_lost = True
        self.cut("")
        self._server.clear(codes.WORKER_DIED, "")


class _Flow(stages.StageFlow):
    most_piece_bytes = PIECE_BYTES


class _Dialer(connections.Dialer):
    def __init__(self, chain: Chain, slot: Slot) -> None:
        super().__init__(
            slot.view,
            mock.Mock(),
            chain.token,
            frozenset({frames.LINK_FEATURE}),
        )
        self._chain, self._slot = chain, slot

    def _connect(self, deadline_s):
        number, kinds = self._slot.number, self._chain.kinds
        is_last = number == len(kinds) - 1
        transport = kinds[number].transport if is_last else connections.STREAM
        return channel.PlainChannel(self._slot.connect("client")), transport

    def outcome(self, deadline_s):
        if not self._slot.is_lost:
            return None
        return dataclasses.replace(self.view, state=states.QUEUED)


class _Seeker:
    """Gives a stage the next slot at once."""

    fallback_reason = cpu_energy_j = None

    def __init__(self, chain: Chain, number: int) -> None:
        self.token = chain.token
        self._chain, self._number = chain, number

    def open(self, *offsets: int):
        while True:
            slot = self._chain.next_slot(self._number)
            dialer = _Dialer(self._chain, slot)
            try:
                return dialer, dialer.open({}, None, *offsets)
            except channel.ChannelClosed:
                # It was lost at once.
                continue

    def reopen(self, lost, input_bytes, output_bytes, deadline_s):
        return self.open(input_bytes, output_bytes)

    def worker_lost(self, gives_up_s):
        pass

    worker_found = stop = close = lambda *_: None
    give_up = report_close = lambda *_: None


class _Loaded:
    """A stage's software core, and what is known of it."""

    chunk_bytes = CHUNK_BYTES
    stateless = True

    def __init__(self, kind: Kind) -> None:
        self.multiple_bytes = kind.multiple_bytes
        self._kind = kind

    def processor(self) -> software.Processor:
        core = self._kind.core(lambda: None, self.multiple_bytes)
        return software.Processor(core)


class _Beside(meanwhile.Beside):
    """Computes so many bytes, and then has slots."""

    def __init__(self, chain: Chain, job: Any, cpu_bytes: int) -> None:
        self._is_enough = not cpu_bytes

        def open_one(index: int, *_: object) -> sessions.Session:
            self.accepted(index, views.SessionView("", states.QUEUED))
            with self._changed:
                self._changed.wait_for(lambda: self._is_enough or self._done)
            border = self.turn(index)
            return chain._open(index, border.input_bytes, border.output_bytes)

        def tell(done_bytes: int, _size_bytes: int) -> None:
            if done_bytes >= cpu_bytes:
                with self._changed:
                    self._is_enough = True
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._all_ready)

        self._loaded = {
            f"stage{number}": _Loaded(kind)
            for number, kind in enumerate(chain.kinds, 1)
        }
        super().__init__(
            *(job.wanted, job.source, job.sink, job.size_bytes),
            *(job.deadline_s, chain.token, open_one, tell),
        )

    @property
    def _done(self) -> bool:
        """Whether the CPU has computed all, or has failed."""
        return self._own.cancelled

    def run(self) -> list[sessions.Session] | None:
        def load(name: str, *_: object, **__: object) -> _Loaded:
            return self._loaded[name]

        with (
            mock.patch.object(software, "movable", load),
            mock.patch.object(
                stages.StageFlow, "most_piece_bytes", PIECE_BYTES
            ),
        ):
            return super().run()


class Chain:
    """A chain; also what connects its workers.

    :param plan: what is lost; each entry happens once.
    """

    def __init__(self, kinds: Sequence[Kind], plan: Plan) -> None:
        self.kinds = kinds
        self.lock = threading.RLock()
        self.token = client.CancelToken()
        self.slots: dict[int, Slot] = {}
        self.counts: collections.Counter[str] = collections.Counter()
        self._plan = dict(plan)
        self._processed = self._generation = 0
        self._strikes: list[threading.Thread] = []

    def next_slot(self, number: int) -> Slot:
        with self.lock:
            self._generation += 1
            slot = Slot(self, number, self._generation)
            self.slots[number] = slot
            return slot

    def tick(self) -> None:
        """Note that a core begins a piece."""
        with self.lock:
            self._processed += 1
            what = self._plan.pop(self._processed, None)
            if what is None:
                return
            action, number = what
            slot = self.slots[number]
            self.counts[action] += 1
        strike = {
            KILL: slot.lose,
            CUT: lambda: slot.cut("client"),
            UNLINK: lambda: slot.cut("link"),
        }[action]
        # In a thread, because the core may be that of the lost worker.
        thread = threading.Thread(target=strike, daemon=True)
        self._strikes.append(thread)
        thread.start()

    def _open(self, number: int, *offsets_bytes: int) -> sessions.Session:
        seeker: Any = _Seeker(self, number)
        flow = _Flow(*seeker.open(*offsets_bytes), seeker)
        return sessions.Session(flow, self.token, 0.0)

    # What workers use to reach each other.

    def begin(self) -> int:
        return 0

    def dial(self, session_id: str, generation: int, begun: int) -> int | None:
        with self.lock:
            slot = self.slots[int(session_id[1:])]
        if slot.generation != generation:
            return None
        try:
            return slot.connect("link").detach()
        except channel.ChannelClosed:
            return None

    def abandon(self) -> None:
        pass

    def run(
        self,
        data: bytes,
        limit_s: float = LIMIT_S,
        cpu_bytes: int | None = None,
    ) -> bytes:
        """Send data through the chain; return its output.

        :param cpu_bytes: how much of the input this process computes before
            there are slots; None: nothing.
        :raises client.FpgapoolError: if it fails, or takes too long.
        """
        sink = sinks.BufferSink()
        job: Any = transfer.Job(
            [
                checking.Stage(number, f"stage{number}", {})
                for number, _ in enumerate(self.kinds, 1)
            ],
            feeding.BufferSource(memoryview(data)),
            sink,
            len(data),
            None,
            channel.deadline_after(limit_s),
            {},
        )
        beside = None
        try:
            if cpu_bytes is None:
                made = [self._open(n, 0, 0) for n, _ in enumerate(self.kinds)]
            else:
                beside = _Beside(self, job, cpu_bytes)
                found = beside.run()
                if found is None:
                    return bytes(sink.data)
                made = found
            opened = [(one, one.flow) for one in made]
            self.flows = [flow for _, flow in opened]
            transfer.Pipeline(job, opened, beside).transfer()
        finally:
            if beside is not None:
                beside.close()
            for strike in self._strikes:
                strike.join(LIMIT_S)
            for slot in list(self.slots.values()):
                slot.lose()
        return bytes(sink.data)
