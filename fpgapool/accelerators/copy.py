# SPDX-License-Identifier: Apache-2.0

"""An accelerator that returns its input."""

from __future__ import annotations

import collections.abc

from fpgapool.accelerators import base


class CopyCore(base.Core):
    """Copies the input; stateless, without parameters."""

    known_answers = (base.KnownAnswer({}, b"abc", b"abc"),)

    def __init__(self, params: collections.abc.Mapping[str, object]) -> None:
        base.refuse_unknown_params(params, ())

    @property
    def in_place(self) -> bool:
        return True

    @property
    def reusable(self) -> bool:
        return True

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        if chunk_out is not chunk_in:
            chunk_out[: len(chunk_in)] = chunk_in
        return len(chunk_in)
