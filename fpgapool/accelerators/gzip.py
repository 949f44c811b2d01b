# SPDX-License-Identifier: Apache-2.0

"""Compression to the gzip format (RFC 1952)."""

from __future__ import annotations

import collections.abc
import zlib

from fpgapool.accelerators import base
from fpgapool.accelerators import parameters

#: Length of the input that is compressed into one member of the file.
MEMBER_BYTES = 1 << 20

# Makes the library write a gzip header and trailer.
_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_DEFAULT_LEVEL = 6
_EXAMPLE = b"abc" * 100


def _member(data: memoryview | bytes, level: int) -> bytes:
    # The header has no name and no time, so equal input has equal output.
    compressor = zlib.compressobj(level, wbits=_GZIP_FORMAT)
    return compressor.compress(data) + compressor.flush()


class GzipCore(base.Core):
    """Compresses each MiB of the input into a member, stateless.

    Together, the members form a file that ``gzip -d`` can read. Empty input
    results in one empty member.

    :param params: ``level``: from 1, the fastest, to 9, the smallest output;
        6 by default.
    """

    known_answers = (
        base.KnownAnswer(
            {"level": _DEFAULT_LEVEL},
            _EXAMPLE,
            # Computed here because zlib's output differs between versions.
            _member(_EXAMPLE, _DEFAULT_LEVEL),
        ),
    )

    def __init__(self, params: collections.abc.Mapping[str, object]) -> None:
        values = parameters.checked(params, defaults={"level": _DEFAULT_LEVEL})
        self._level = parameters.integer(values, "level", 1, 9)
        self._has_output = False
        self._cancelled = False

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        written_bytes = 0
        for start in range(0, len(chunk_in), MEMBER_BYTES):
            if self._cancelled:
                return 0
            data = chunk_in[start : start + MEMBER_BYTES]
            member = _member(data, self._level)
            end_bytes = written_bytes + len(member)
            chunk_out[written_bytes:end_bytes] = member
            written_bytes = end_bytes
            self._has_output = True
        return written_bytes

    def finish(self, chunk_out: memoryview) -> int:
        if self._has_output:
            return 0
        # gzip rejects a file without members.
        member = _member(b"", self._level)
        chunk_out[: len(member)] = member
        return len(member)

    def max_output_bytes(self, input_bytes: int) -> int:
        members = max(1, -(-input_bytes // MEMBER_BYTES))
        # In the worst case, the library's fixed codes take nine bits per byte.
        return input_bytes + input_bytes // 8 + 64 * members

    def cancel(self) -> None:
        self._cancelled = True
