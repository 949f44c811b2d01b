# SPDX-License-Identifier: Apache-2.0

"""Boards that compute at once, and need virtual time for it."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import os
import time
import typing

from fpgapool.accelerators import base as accelerators
from fpgapool.accelerators import copy as copying
from fpgapool.accelerators import sha
from fpgapool.drivers import base
from fpgapool.vocabulary import codes

BOARD = "board0"
SHAPE = "medium"
#: So slow that slots are in use most of the time.
BYTES_PER_S = 2e4
#: Bytes of output for a byte of input, which the byte alone decides.
RATIOS: dict[str, collections.abc.Callable[[int], int]] = {
    "shrink": lambda byte: 4 * (byte < 2),
    "swell": lambda byte: 20,
}


def scaled(name: str, data: bytes | memoryview) -> bytes:
    """Return the output of an accelerator of RATIOS."""
    ratio = RATIOS[name]
    return b"".join(bytes([byte]) * ratio(byte) for byte in data)


class _ScalingCore(accelerators.Core):
    """Needs as much room for a piece as it could have output."""

    name: str

    def __init__(
        self, params: collections.abc.Mapping[str, typing.Any]
    ) -> None:
        del params

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        output = scaled(self.name, chunk_in)
        chunk_out[: len(output)] = output
        return len(output)

    def max_output_bytes(self, input_bytes: int) -> int:
        return input_bytes * max(map(RATIOS[self.name], range(256)))


class _ShrinkCore(_ScalingCore):
    name = "shrink"


class _SwellCore(_ScalingCore):
    name = "swell"


_CORES: dict[str, type[accelerators.Core]] = {
    "copy": copying.CopyCore,
    "sha": sha.ShaCore,
    "shrink": _ShrinkCore,
    "swell": _SwellCore,
}


def profile(name: str) -> base.Profile:
    """Return the profile of an accelerator of the world.

    :param name: ``sha``, or another one, which is stateless.
    """
    return base.Profile(
        name=name,
        description="of a world",
        peak_bytes_per_s=BYTES_PER_S,
        return_ratio={"copy": 1.0, "swell": 20.0}.get(name, 0.0),
        stateless=name != "sha",
        shapes=(),
        params_schema={"type": "object"},
        core=name,
        chunk_multiple_bytes=1,
    )


PROFILES = {name: profile(name) for name in _CORES}


@dataclasses.dataclass
class Board:
    """The state of a host's board, which its processes share.

    :ivar slots: how many it has; none is a host without boards.
    :ivar broken: slots that cannot be programmed.
    :ivar fault: why the board is not healthy; None if it is.
    :ivar programming: slots that are being programmed or cleaned, and by
        which process.
    :ivar running: slots whose core computes, and in which process.
    :ivar served: whose task a slot has run last, since it was cleaned.
    """

    slots: int
    broken: set[int] = dataclasses.field(default_factory=set)
    fault: str | None = None
    programming_s: float = 0.05
    programming: dict[int, int] = dataclasses.field(default_factory=dict)
    running: dict[int, int] = dataclasses.field(default_factory=dict)
    served: dict[int, str] = dataclasses.field(default_factory=dict)

    @contextlib.contextmanager
    def changed(self, slot: int) -> collections.abc.Iterator[None]:
        """Program or clean a slot meanwhile: nothing may run there."""
        # A process that has died left what it did.
        pid = os.getpid()
        if self.running.get(slot) == pid:
            COMPLAIN(f"slot {slot} is changed while its core computes")
        if self.programming.get(slot) == pid:
            COMPLAIN(f"slot {slot} is changed twice at the same time")
        self.programming[slot] = pid
        yield
        self.programming.pop(slot, None)
        self.served.pop(slot, None)


def _complain(what: str) -> None:
    raise AssertionError(what)


#: Takes what must not happen on a board.
COMPLAIN: collections.abc.Callable[[str], None] = _complain
#: The boards of the world, by the UUIDs of their hosts.
BOARDS: dict[str, Board] = {}
#: The group of each task, and the client or project that its slot is cleared
#: after, by the first bytes of its input.
SENT: dict[bytes, tuple[str, str]] = {}
TAG_BYTES = 16


class _Core(base.Core):
    """Takes time for what another core does at once."""

    def __init__(self, inner: base.Core, board: Board, slot: int) -> None:
        self._inner = inner
        self._board = board
        self._slot = slot

    @property
    def in_place(self) -> bool:
        return self._inner.in_place

    @property
    def reusable(self) -> bool:
        return self._inner.reusable

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        board, slot, pid = self._board, self._slot, os.getpid()
        if board.programming.get(slot) == pid:
            COMPLAIN(f"slot {slot} computes while it is being programmed")
        sent = SENT.get(bytes(chunk_in[:TAG_BYTES])) if SENT else None
        if sent is not None:
            before = board.served.setdefault(slot, sent[1])
            if before != sent[1]:
                COMPLAIN(f"slot {slot} was not cleared after {before}")
        board.running[slot] = pid
        time.sleep(len(chunk_in) / BYTES_PER_S)
        board.running.pop(slot, None)
        return self._inner.process(chunk_in, chunk_out, offset_bytes)

    def finish(self, chunk_out: memoryview) -> int:
        return self._inner.finish(chunk_out)

    def max_output_bytes(self, input_bytes: int) -> int:
        return self._inner.max_output_bytes(input_bytes)


class WorldDriver(base.Driver):
    """See :class:`fpgapool.drivers.base.Driver`."""

    def __init__(
        self, settings: collections.abc.Mapping[str, typing.Any]
    ) -> None:
        self._board = BOARDS[settings["host_uuid"]]
        self._programmed: base.Profile | None = None

    def discover(self) -> tuple[base.DeviceInfo, ...]:
        if not self._board.slots:
            return ()
        return (
            base.DeviceInfo(
                name=BOARD,
                model="world",
                dma_bytes_per_s=1e7,
                programming_time_s=self._board.programming_s,
                slots=tuple(
                    base.SlotInfo(number, SHAPE, None)
                    for number in range(self._board.slots)
                ),
            ),
        )

    def program(
        self,
        device: str,
        slot: int,
        bitstream: str,
        file: base.BitstreamFile | None = None,
    ) -> base.Profile:
        with self._board.changed(slot):
            time.sleep(self._board.programming_s)
        if slot in self._board.broken:
            raise base.DriverError(codes.PROGRAMMING_FAILED, "broken")
        self._programmed = PROFILES[bitstream.rpartition(":")[2]]
        return self._programmed

    def open(
        self,
        device: str,
        slot: int,
        params: collections.abc.Mapping[str, typing.Any],
    ) -> base.Core:
        if self._programmed is None:
            raise base.DriverError(codes.NOT_PROGRAMMED, "nothing is there")
        core = _CORES[self._programmed.name](params)
        return _Core(core, self._board, slot)

    def scrub(self, device: str, slot: int) -> None:
        with self._board.changed(slot):
            time.sleep(0.001)

    def health(self, device: str) -> base.Health:
        fault = self._board.fault
        return base.Health(fault is None, fault or "")

    def telemetry(self, device: str) -> base.Telemetry:
        return base.Telemetry(25.0, None)
