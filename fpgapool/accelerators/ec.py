# SPDX-License-Identifier: Apache-2.0

"""Erasure coding: data in k + m fragments survives the loss of any m of them.

The data is cut into stripes, and each stripe becomes a record: a header and
k + m fragments of equal length, one after the other. Big-endian header::

    magic "FPEC" | version u8 = 1 | k u8 | m u8 | reserved u8 = 0
    | data_length_bytes u32 | CRC-32 of the data u32

A fragment has ``ceil(data_length_bytes / k)`` bytes. The first k fragments
are the data itself, padded with zeros; fragment i >= k is the sum over j < k
of fragment j / (i xor j) in GF(2**8) modulo x**8 + x**4 + x**3 + x**2 + 1
(a Cauchy matrix, so the data can be restored from any k fragments).
"""

from __future__ import annotations

import collections.abc
import struct
import typing
import zlib

from pyeclib import ec_iface

from fpgapool.accelerators import base
from fpgapool.accelerators import parameters

ENCODE = "encode"
RECONSTRUCT = "reconstruct"
#: The library's limit.
MAX_FRAGMENTS = 32
#: Maximum parity fragments per data fragment; limits the output of a piece.
MAX_PARITY_RATIO = 3
#: Limits the overhead of headers.
MIN_STRIPE_BYTES = 1 << 8
MAX_STRIPE_BYTES = 1 << 20
DEFAULT_STRIPE_BYTES = 1 << 16

_BACKEND = "isa_l_rs_cauchy"
_HEADER = struct.Struct(">4sBBBBII")
_MAGIC = b"FPEC"
_VERSION = 1
HEADER_BYTES = _HEADER.size

if _BACKEND not in ec_iface.VALID_EC_TYPES:
    raise ImportError(f"PyECLib was built without {_BACKEND}")


class EcCore(base.Core):
    """Encodes or reconstructs stripes; stateless.

    :param params: ``mode``: ``encode`` (the default) or ``reconstruct``;
        ``k`` and ``m``: numbers of data and parity fragments, 4 and 2 by
        default; ``stripe_bytes``: data in each stripe but the last, 64 KiB
        by default; ``missing``, only for ``reconstruct``: indexes of the
        fragments that every record of the input lacks, none by default.
    """

    # With one fragment of each kind, both are equal to the data.
    known_answers = (
        base.KnownAnswer(
            {"mode": ENCODE, "k": 1, "m": 1, "stripe_bytes": 256},
            b"abc",
            _HEADER.pack(_MAGIC, _VERSION, 1, 1, 0, 3, zlib.crc32(b"abc"))
            + b"abcabc",
        ),
    )
    usual_params: typing.ClassVar = {}

    def __init__(self, params: collections.abc.Mapping[str, object]) -> None:
        values = parameters.checked(
            params,
            defaults={
                "mode": ENCODE,
                "k": 4,
                "m": 2,
                "stripe_bytes": DEFAULT_STRIPE_BYTES,
                "missing": [],
            },
        )
        mode = parameters.choice(values, "mode", (ENCODE, RECONSTRUCT))
        k, m = _fragment_counts(values)
        self._stripe_bytes = parameters.integer(
            values, "stripe_bytes", MIN_STRIPE_BYTES, MAX_STRIPE_BYTES
        )
        if mode == ENCODE and "missing" in params:
            raise base.InvalidParams(
                f"'missing' requires 'mode' {RECONSTRUCT}"
            )
        self._present = _present(values["missing"], k, m)
        self._encodes = mode == ENCODE
        self._code = _Code(k, m)

    @property
    def chunk_multiple_bytes(self) -> int:
        """Length of a stripe, or of its record without missing fragments."""
        if self._encodes:
            return self._stripe_bytes
        return self._record_bytes(self._stripe_bytes)

    def _record_bytes(self, data_bytes: int) -> int:
        fragment_bytes = self._code.fragment_bytes(data_bytes)
        return HEADER_BYTES + len(self._present) * fragment_bytes

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        code_one = self._encode if self._encodes else self._reconstruct
        step_bytes = self.chunk_multiple_bytes
        written_bytes = 0
        for start in range(0, len(chunk_in), step_bytes):
            written_bytes += code_one(
                chunk_in[start : start + step_bytes],
                chunk_out[written_bytes:],
                offset_bytes + start,
            )
        return written_bytes

    def _encode(
        self, stripe: memoryview, room: memoryview, offset_bytes: int
    ) -> int:
        data = bytes(stripe)
        code = self._code
        _HEADER.pack_into(
            room,
            0,
            *(_MAGIC, _VERSION, code.k, code.m, 0),
            *(len(data), zlib.crc32(data)),
        )
        position = HEADER_BYTES
        for fragment in code.encode(data):
            room[position : position + len(fragment)] = fragment
            position += len(fragment)
        return position

    def _reconstruct(
        self, record: memoryview, room: memoryview, offset_bytes: int
    ) -> int:
        data_bytes, checksum = self._read_header(record, offset_bytes)
        fragment_bytes = self._code.fragment_bytes(data_bytes)
        starts = range(HEADER_BYTES, len(record), fragment_bytes)
        fragments = {
            index: record[start : start + fragment_bytes]
            for index, start in zip(self._present, starts, strict=True)
        }
        data = self._code.decode(fragments, data_bytes)
        if zlib.crc32(data) != checksum:
            raise base.InvalidInput(
                f"the record at input offset {offset_bytes} is damaged, "
                "or 'missing' does not list the fragments that it lacks"
            )
        room[:data_bytes] = data
        return data_bytes

    def _read_header(
        self, record: memoryview, offset_bytes: int
    ) -> tuple[int, int]:
        expected = (_MAGIC, _VERSION, self._code.k, self._code.m, 0)
        if len(record) >= HEADER_BYTES:
            *found, data_bytes, checksum = _HEADER.unpack_from(record)
            if (
                tuple(found) == expected
                and 0 < data_bytes <= self._stripe_bytes
                and len(record) == self._record_bytes(data_bytes)
            ):
                return data_bytes, checksum
        raise base.InvalidInput(
            f"there is no record at input offset {offset_bytes} that matches "
            "'k', 'm' and 'stripe_bytes'"
        )

    def max_output_bytes(self, input_bytes: int) -> int:
        whole, rest_bytes = divmod(input_bytes, self.chunk_multiple_bytes)
        if self._encodes:
            output_bytes = whole * self._record_bytes(self._stripe_bytes)
            if rest_bytes:
                output_bytes += self._record_bytes(rest_bytes)
            return output_bytes
        fragment_bytes = max(0, rest_bytes - HEADER_BYTES) // len(
            self._present
        )
        return whole * self._stripe_bytes + self._code.k * fragment_bytes


class _Code:
    """The library's code, without the library's fragment headers.

    The headers take 80 bytes per fragment, and the library trusts them. They
    depend only on the length of the data, so they are generated here and
    prepended to incoming fragments.
    """

    def __init__(self, k: int, m: int) -> None:
        self.k = k
        self.m = m
        self._driver = ec_iface.ECDriver(k=k, m=m, ec_type=_BACKEND)
        self._headers: list[bytes] = []
        self._headers_data_bytes = 0

    def fragment_bytes(self, data_bytes: int) -> int:
        return -(-data_bytes // self.k)

    def encode(self, data: bytes) -> list[memoryview]:
        fragment_bytes = self.fragment_bytes(len(data))
        return [
            memoryview(fragment)[-fragment_bytes:]
            for fragment in self._driver.encode(data)
        ]

    def decode(
        self,
        fragments: collections.abc.Mapping[int, memoryview],
        data_bytes: int,
    ) -> bytes:
        headers = self._headers_for(data_bytes)
        complete = [
            b"".join((headers[index], fragment))
            for index, fragment in fragments.items()
        ]
        data: bytes = self._driver.decode(complete)
        return data

    def _headers_for(self, data_bytes: int) -> list[bytes]:
        if data_bytes != self._headers_data_bytes:
            fragment_bytes = self.fragment_bytes(data_bytes)
            self._headers = [
                fragment[:-fragment_bytes]
                for fragment in self._driver.encode(bytes(data_bytes))
            ]
            self._headers_data_bytes = data_bytes
        return self._headers


def _fragment_counts(params: parameters.Params) -> tuple[int, int]:
    k = parameters.integer(params, "k", 1, MAX_FRAGMENTS - 1)
    most = min(MAX_FRAGMENTS - k, MAX_PARITY_RATIO * k)
    return k, parameters.integer(params, "m", 1, most)


def _present(missing: object, k: int, m: int) -> list[int]:
    lost = parameters.fragments(missing, k, m)
    return [index for index in range(k + m) if index not in lost]
