# SPDX-License-Identifier: Apache-2.0

"""Erasure coding: restore dropped fragments from the others.

No library takes part: the numbers are those of GF(2**8), added by exclusive
or and multiplied by a table.
"""

from __future__ import annotations

import functools
import struct
import typing
import zlib

import numpy as np
import numpy.typing as npt

from demo import workload

Bytes = npt.NDArray[np.uint8]

_HEADER = struct.Struct(">4sBBBBII")
#: Modulo x**8 + x**4 + x**3 + x**2 + 1.
_POLYNOMIAL = 0x11D


def is_right(job: workload.Job) -> bool:
    """Compare a job's fragments, and data restored from some, with its input.

    The check drops as many data fragments as there are parity fragments, so
    that it needs all others.

    :param job: the job, done.
    :returns: whether the data is the same with and without them.
    """
    k, m, stripe_bytes = (
        typing.cast(int, job.params[name])
        for name in ("k", "m", "stripe_bytes")
    )
    data, output = job.source.read_bytes(), job.output.read_bytes()
    position = 0
    for start in range(0, len(data), stripe_bytes):
        stripe = data[start : start + stripe_bytes]
        fragment_bytes = -(-len(stripe) // k)
        end = position + _HEADER.size + (k + m) * fragment_bytes
        if not _record_is_right(output[position:end], stripe, k, m):
            return False
        position = end
    return position == len(output)


def _record_is_right(record: bytes, stripe: bytes, k: int, m: int) -> bool:
    header = _HEADER.pack(b"FPEC", 1, k, m, 0, len(stripe), zlib.crc32(stripe))
    fragment_bytes = -(-len(stripe) // k)
    length_bytes = len(header) + (k + m) * fragment_bytes
    if len(record) != length_bytes or not record.startswith(header):
        return False
    body = np.frombuffer(record, np.uint8, offset=len(header))
    fragments = list(body.reshape(k + m, fragment_bytes))
    lost = range(min(k, m))
    solved = [*solve(fragments, k, lost), *fragments[len(lost) : k]]
    padded = stripe.ljust(k * fragment_bytes, b"\0")
    return all(
        np.concatenate(parts).tobytes() == padded
        for parts in (fragments[:k], solved)
    )


def solve(
    fragments: typing.Sequence[Bytes], k: int, lost: typing.Sequence[int]
) -> list[Bytes]:
    """Compute lost data fragments from the others.

    Parity fragment i is the sum over all data fragments j of fragment j
    divided by i xor j: as many equations as there are lost ones.

    :param fragments: data, then parity; those that are lost are not read.
    :param k: how many are data.
    :param lost: indexes of data fragments, no more than there is parity.
    :returns: the lost fragments.
    """
    coefficients = []
    sums = []
    for parity in range(k, k + len(lost)):
        rest = fragments[parity]
        for index in set(range(k)) - set(lost):
            rest = rest ^ _times(_inverse(parity ^ index), fragments[index])
        coefficients.append([_inverse(parity ^ index) for index in lost])
        sums.append(rest)
    return _eliminated(coefficients, sums)


def _eliminated(rows: list[list[int]], sums: list[Bytes]) -> list[Bytes]:
    """Solve equations by Gauss and Jordan.

    No row has to be exchanged: any square part of a Cauchy matrix can be
    inverted, so that no pivot is zero.
    """
    for pivot, row in enumerate(rows):
        factor = _inverse(row[pivot])
        rows[pivot] = [_product(factor, value) for value in row]
        sums[pivot] = _times(factor, sums[pivot])
        for other in set(range(len(rows))) - {pivot}:
            factor = rows[other][pivot]
            rows[other] = [
                value ^ _product(factor, mine)
                for value, mine in zip(rows[other], rows[pivot], strict=True)
            ]
            sums[other] = sums[other] ^ _times(factor, sums[pivot])
    return sums


def _times(factor: int, fragment: Bytes) -> Bytes:
    return _table(factor)[fragment]


@functools.cache
def _table(factor: int) -> Bytes:
    return np.array([_product(factor, b) for b in range(256)], np.uint8)


def _product(one: int, other: int) -> int:
    result = 0
    while other:
        if other & 1:
            result ^= one
        one <<= 1
        if one & 0x100:
            one ^= _POLYNOMIAL
        other >>= 1
    return result


@functools.cache
def _inverse(value: int) -> int:
    return next(b for b in range(1, 256) if _product(value, b) == 1)
