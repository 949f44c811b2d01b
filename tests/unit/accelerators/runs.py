# SPDX-License-Identifier: Apache-2.0

"""Runs cores as a worker does, with room for exactly what they announce."""

import itertools
import typing

from hypothesis import strategies as st

from fpgapool.accelerators import base

_GUARD = b"untouched"

#: Where a stream is cut, in units of the core's multiple.
CUTS = st.lists(st.integers(0, 50), max_size=6)


def load_class(name: str) -> type[base.Core]:
    """Find the core of an accelerator."""
    return base.load_core(base.load_profile(name).core)


def load(name: str, **params: object) -> base.Core:
    """Make the core of an accelerator."""
    return load_class(name)(params)


def multiple_bytes(name: str, core: base.Core) -> int:
    """Return what a worker would announce."""
    profile = base.load_profile(name)
    return core.chunk_multiple_bytes or profile.chunk_multiple_bytes


def process(core: base.Core, piece: bytes, offset_bytes: int = 0) -> bytes:
    return _call(
        core,
        len(piece),
        lambda room: core.process(memoryview(piece), room, offset_bytes),
    )


def finish(core: base.Core) -> bytes:
    """End the input."""
    return _call(core, 0, core.finish)


def _call(
    core: base.Core,
    input_bytes: int,
    call: typing.Callable[[memoryview], int],
) -> bytes:
    room_bytes = core.max_output_bytes(input_bytes)
    buffer = bytearray(room_bytes) + _GUARD
    count_bytes = call(memoryview(buffer)[:room_bytes])
    assert 0 <= count_bytes <= room_bytes
    assert buffer[room_bytes:] == _GUARD
    return bytes(buffer[:count_bytes])


def run(
    core: base.Core,
    data: bytes,
    cuts: typing.Iterable[int] = (),
    unit_bytes: int = 1,
) -> bytes:
    """Process a whole input, cut at these multiples of a unit."""
    inner = {cut * unit_bytes for cut in cuts if cut * unit_bytes < len(data)}
    ends = sorted({0, len(data), *inner})
    pieces = [
        process(core, data[start:end], start)
        for start, end in itertools.pairwise(ends)
    ]
    return b"".join([*pieces, finish(core)])
