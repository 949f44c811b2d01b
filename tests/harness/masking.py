# SPDX-License-Identifier: Apache-2.0

"""An accelerator with arguments: exclusive or with a repeated mask."""

from __future__ import annotations

import collections.abc
import pathlib

from fpgapool.accelerators import base

NAME = "mask"
_PROFILE = """
name: mask
description: Exclusive or with argument 1, repeated
peak_bytes_per_s: 2.0e+9
return_ratio: 1
stateless: true
shapes: []
params_schema:
  type: object
  additionalProperties: false
core: tests.harness.masking:MaskCore
chunk_multiple_bytes: 1
"""


def write_profile(directory: pathlib.Path) -> None:
    """Let processes know it that have this directory of profiles."""
    (directory / f"{NAME}.yaml").write_text(_PROFILE)


def masked(data: bytes, mask: bytes, offset_bytes: int = 0) -> bytes:
    """Return what the accelerator makes of input."""
    return bytes(
        byte ^ mask[(offset_bytes + index) % len(mask)]
        for index, byte in enumerate(data)
    )


class MaskCore(base.Core):
    """Takes argument 1, of at least 1 byte, which is the mask."""

    def __init__(self, params: collections.abc.Mapping[str, object]) -> None:
        self._mask = b""

    def set_argument(self, number: int, data: memoryview) -> None:
        if number != 1:
            super().set_argument(number, data)
        if bytes(data[:4]) == b"wron":
            raise base.InvalidArgument("argument 1 is wrong")
        self._mask = bytes(data)

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        if not self._mask:
            raise base.InvalidArgument("argument 1 is missing")
        size = len(self._mask)
        count = -(-len(chunk_in) // size) + 1
        start = offset_bytes % size
        mask = (self._mask * count)[start : start + len(chunk_in)]
        number = int.from_bytes(chunk_in) ^ int.from_bytes(mask)
        chunk_out[: len(chunk_in)] = number.to_bytes(len(chunk_in))
        return len(chunk_in)
