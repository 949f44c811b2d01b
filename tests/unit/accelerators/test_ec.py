# SPDX-License-Identifier: Apache-2.0

"""Erasure coding."""

import functools
import itertools
import operator
import random
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.accelerators import base
from tests.unit.accelerators import runs

HEADER_BYTES = 16


@functools.cache
def multiply(a, b):
    """Multiply in GF(2**8)."""
    product = 0
    while b:
        product ^= a * (b & 1)
        a = (a << 1) ^ (0x11D if a & 0x80 else 0)
        b >>= 1
    return product


@functools.cache
def inverse(a):
    return next(b for b in range(256) if multiply(a, b) == 1)


def record_of(stripe, k, m):
    """Code a stripe as the layout says."""
    fragment_bytes = -(-len(stripe) // k)
    padded = stripe.ljust(k * fragment_bytes, b"\0")
    data = [
        padded[i * fragment_bytes : (i + 1) * fragment_bytes] for i in range(k)
    ]
    parity = [
        bytes(
            functools.reduce(
                operator.xor,
                (multiply(inverse(i ^ j), data[j][n]) for j in range(k)),
            )
            for n in range(fragment_bytes)
        )
        for i in range(k, k + m)
    ]
    header = struct.pack(
        ">4sBBBBII", b"FPEC", 1, k, m, 0, len(stripe), zlib.crc32(stripe)
    )
    return b"".join([header, *data, *parity])


def without(encoded, k, m, stripe_bytes, missing):
    """Leave fragments out of every record."""
    kept = []
    position = 0
    while position < len(encoded):
        (data_bytes,) = struct.unpack_from(">I", encoded, position + 8)
        fragment_bytes = -(-data_bytes // k)
        kept.append(encoded[position : position + HEADER_BYTES])
        position += HEADER_BYTES
        for index in range(k + m):
            if index not in missing:
                kept.append(encoded[position : position + fragment_bytes])
            position += fragment_bytes
    return b"".join(kept)


def encode(data, **params):
    return runs.run(runs.load("ec", **params), data)


def reconstruct(encoded, cuts=(), **params):
    core = runs.load("ec", mode="reconstruct", **params)
    unit_bytes = runs.multiple_bytes("ec", core)
    return runs.run(core, encoded, cuts, unit_bytes)


@pytest.mark.parametrize(
    ("k", "m"), [(1, 1), (1, 3), (2, 1), (4, 2), (10, 4), (8, 24), (28, 4)]
)
@pytest.mark.parametrize("length_bytes", [1, 255, 256, 257, 512, 513])
def test_layout(k, m, length_bytes):
    data = random.Random(length_bytes).randbytes(length_bytes)
    stripes = [data[start : start + 256] for start in range(0, len(data), 256)]
    expected = b"".join(record_of(stripe, k, m) for stripe in stripes)
    assert encode(data, k=k, m=m, stripe_bytes=256) == expected


@pytest.mark.parametrize(("k", "m"), [(1, 3), (3, 3), (4, 2), (6, 1)])
def test_every_loss_of_up_to_m_fragments(k, m):
    data = random.Random(k).randbytes(1000)
    params = {"k": k, "m": m, "stripe_bytes": 300}
    encoded = encode(data, **params)
    for count in range(m + 1):
        for lost in itertools.combinations(range(k + m), count):
            rest = without(encoded, k, m, 300, lost)
            found = reconstruct(rest, missing=list(lost), **params)
            assert found == data, lost


def test_defaults():
    data = random.Random(3).randbytes(100_000)
    encoded = encode(data)
    fragments_bytes = 6 * (65536 // 4 + (100_000 - 65536) // 4)
    assert len(encoded) == 2 * HEADER_BYTES + fragments_bytes
    assert reconstruct(encoded) == data


@given(
    length_bytes=st.integers(1, 5000),
    stripe_bytes=st.integers(256, 400),
    k=st.integers(1, 6),
    m=st.integers(1, 3),
    cuts=runs.CUTS,
    chance=st.randoms(use_true_random=False),
)
def test_cuts_change_nothing(length_bytes, stripe_bytes, k, m, cuts, chance):
    data = chance.randbytes(length_bytes)
    params = {"k": k, "m": m, "stripe_bytes": stripe_bytes}
    core = runs.load("ec", **params)
    expected = runs.run(core, data)
    assert runs.run(core, data, cuts, stripe_bytes) == expected
    lost = chance.sample(range(k + m), chance.randint(0, m))
    rest = without(expected, k, m, stripe_bytes, lost)
    assert reconstruct(rest, cuts, missing=lost, **params) == data


PARAMS = {"k": 3, "m": 2, "stripe_bytes": 300}
ENCODED = encode(bytes(range(70)) * 10, **PARAMS)
RECORD_BYTES = HEADER_BYTES + 5 * 100


@pytest.mark.parametrize(
    ("position", "offset"),
    [
        pytest.param(0, 0, id="magic"),
        pytest.param(RECORD_BYTES + 4, RECORD_BYTES, id="version"),
        pytest.param(RECORD_BYTES + 5, RECORD_BYTES, id="k"),
        pytest.param(RECORD_BYTES + 6, RECORD_BYTES, id="m"),
        pytest.param(RECORD_BYTES + 8, RECORD_BYTES, id="length"),
        pytest.param(RECORD_BYTES + 12, RECORD_BYTES, id="checksum"),
        pytest.param(RECORD_BYTES + 16, RECORD_BYTES, id="data"),
    ],
)
def test_damage_is_noticed(position, offset):
    damaged = bytearray(ENCODED)
    damaged[position] ^= 0x80
    with pytest.raises(base.InvalidInput) as caught:
        reconstruct(bytes(damaged), **PARAMS)
    assert f"input offset {offset}" in caught.value.message


@pytest.mark.parametrize("length_bytes", [1, 15, 16, 26, RECORD_BYTES - 1])
def test_end_within_a_record(length_bytes):
    with pytest.raises(base.InvalidInput):
        reconstruct(ENCODED[: RECORD_BYTES + length_bytes], **PARAMS)


@pytest.mark.parametrize(
    "params",
    [
        {"missing": [0]},
        {"k": 2},
        {"stripe_bytes": 301},
    ],
)
def test_other_parameters_than_those_of_the_fragments(params):
    with pytest.raises(base.InvalidInput):
        reconstruct(ENCODED, **{**PARAMS, **params})


def test_other_fragments_than_were_named():
    rest = without(ENCODED, 3, 2, 300, [0])
    with pytest.raises(base.InvalidInput) as caught:
        reconstruct(rest, missing=[1], **PARAMS)
    assert "missing" in caught.value.message


def test_too_many_missing():
    with pytest.raises(base.InvalidParams) as caught:
        reconstruct(ENCODED, missing=[0, 1, 2], **PARAMS)
    assert "at most 2" in caught.value.message


def test_nothing_is_missing_when_encoding():
    with pytest.raises(base.InvalidParams):
        runs.load("ec", mode="encode", missing=[])
