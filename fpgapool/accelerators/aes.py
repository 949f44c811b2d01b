#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""AES in counter mode, which encrypts and decrypts alike."""

from __future__ import annotations

import collections.abc
import re

from cryptography.hazmat.primitives import ciphers
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.ciphers import modes

from fpgapool.accelerators import base

BLOCK_BYTES = 16

_HEX = re.compile(r"[0-9A-Fa-f]*")
_KEY_BYTES = (16, 24, 32)


class AesCore(base.Core):
    """Encrypts or decrypts with AES-CTR, stateless.

    The counter block of the input's block n is ``iv + n`` modulo 2**128, so
    the offset alone says how any piece is processed.

    :param params: ``key``, 16, 24 or 32 bytes in hexadecimal, and ``iv``,
        the first counter block, 16 bytes in hexadecimal.
    """

    def __init__(self, params: collections.abc.Mapping[str, object]) -> None:
        base.refuse_unknown_params(params, ("iv", "key"))
        self._algorithm = algorithms.AES(_bytes(params, "key", _KEY_BYTES))
        self._first_counter = int.from_bytes(
            _bytes(params, "iv", (BLOCK_BYTES,))
        )
        self._seek(0)

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        if offset_bytes != self._next_offset_bytes:
            self._seek(offset_bytes)
        self._context.update_into(chunk_in, chunk_out)
        self._next_offset_bytes += len(chunk_in)
        return len(chunk_in)

    def _seek(self, offset_bytes: int) -> None:
        blocks, skipped_bytes = divmod(offset_bytes, BLOCK_BYTES)
        counter = (self._first_counter + blocks) % (1 << 128)
        mode = modes.CTR(counter.to_bytes(BLOCK_BYTES))
        self._context = ciphers.Cipher(self._algorithm, mode).encryptor()
        # Runs the key stream forward to an offset within a block.
        self._context.update(bytes(skipped_bytes))
        self._next_offset_bytes = offset_bytes


def _bytes(
    params: collections.abc.Mapping[str, object],
    name: str,
    lengths_bytes: tuple[int, ...],
) -> bytes:
    value = params.get(name)
    if not isinstance(value, str) or not _HEX.fullmatch(value):
        raise base.InvalidParams(
            f"'{name}' must be a string of hexadecimal digits"
        )
    if len(value) not in [2 * length_bytes for length_bytes in lengths_bytes]:
        lengths = " or ".join(str(length) for length in lengths_bytes)
        raise base.InvalidParams(f"'{name}' must have {lengths} bytes")
    return bytes.fromhex(value)
