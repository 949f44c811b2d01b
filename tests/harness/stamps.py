# SPDX-License-Identifier: Apache-2.0

"""An accelerator whose results say where and when they were computed."""

from __future__ import annotations

import collections.abc
import os
import pathlib
import struct
import time
import typing
import zlib

from fpgapool.accelerators import base
from tests.harness import planting

#: All of the input, in another order of bytes.
CHANGED = bytes((value + 1) % 256 for value in range(256))


class Stamp(typing.NamedTuple):
    """What is in front of an output.

    What can change while a task runs is there twice: as its core found it
    before and after.

    :ivar host: CRC-32 of the path of its state.
    :ivar accelerator: CRC-32 of what is programmed, as the emulator recorded
        it; while a slot is being programmed, its record is empty.
    :ivar programmed_ns: when the emulator recorded it.
    :ivar count: tasks of the same core so far.
    """

    host: int
    slot: int
    accelerator: int
    accelerator_after: int
    generation: int
    generation_after: int
    programmed_ns: int
    programmed_after_ns: int
    began_ns: int
    ended_ns: int
    count: int


LAYOUT = struct.Struct("<IIII7Q")

_generation = 0


def host_number(state_dir: pathlib.Path | str) -> int:
    """Return the number of a host in stamps."""
    return zlib.crc32(str(state_dir).encode())


def accelerator_number(name: str) -> int:
    """Return the number of a built-in accelerator in stamps."""
    return zlib.crc32(f"{name}\nbuiltin:{name}".encode())


def read(output: bytes) -> tuple[Stamp, bytes]:
    """Divide an output.

    :returns: the stamp, and the changed input.
    """
    stamp = Stamp(*LAYOUT.unpack_from(output))
    return stamp, output[LAYOUT.size :]


class StampCore(base.Core):
    """Changes its input, and takes as many ms as the first byte says."""

    def __init__(self, params: collections.abc.Mapping[str, object]) -> None:
        base.refuse_unknown_params(params, ())
        settings = planting.settings()
        state_dir = pathlib.Path(settings["state_dir"])
        place = (settings["device"], settings["slot"])
        self._host = host_number(state_dir)
        self._slot = place[1]
        self._record = (
            state_dir / "emulator" / "{}.{}.programmed".format(*place)
        )
        self._count = 0

    @property
    def reusable(self) -> bool:
        return True

    def max_output_bytes(self, input_bytes: int) -> int:
        return input_bytes + LAYOUT.size if input_bytes else 0

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        began_ns = time.monotonic_ns()
        accelerator, programmed_ns = self._look()
        generation = _generation
        self._count += 1
        time.sleep(chunk_in[0] / 1000)
        output = bytes(chunk_in).translate(CHANGED)
        accelerator_after, programmed_after_ns = self._look()
        LAYOUT.pack_into(
            chunk_out,
            0,
            *Stamp(
                self._host,
                self._slot,
                accelerator,
                accelerator_after,
                generation,
                _generation,
                programmed_ns,
                programmed_after_ns,
                began_ns,
                time.monotonic_ns(),
                self._count,
            ),
        )
        end = LAYOUT.size + len(output)
        chunk_out[LAYOUT.size : end] = output
        return end

    def _look(self) -> tuple[int, int]:
        with self._record.open("rb") as file:
            # Of the open file: the path may already lead to another one.
            changed_ns = os.fstat(file.fileno()).st_mtime_ns
            # The shape of the board comes last.
            record, _, _ = file.read().rpartition(b"\n")
            return zlib.crc32(record), changed_ns


def _note_generations() -> None:
    from fpgapool.agent.worker import tasks

    arm = tasks.Member.arm

    def noting(member: typing.Any, order: typing.Any, profile: object) -> None:
        global _generation
        _generation = order.generation
        arm(member, order, profile)

    tasks.Member.arm = noting


if planting.is_process(planting.WORKER):
    _note_generations()
