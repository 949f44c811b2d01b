# SPDX-License-Identifier: Apache-2.0

"""Compression into members of a gzip file."""

import gzip
import random
import subprocess
import zlib

import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from tests.unit.accelerators import runs

MIB = 1 << 20


def text(size_bytes):
    """Make data that can be compressed."""
    generator = random.Random(size_bytes)
    line = b" ".join(generator.randbytes(3).hex().encode() for _ in range(999))
    return (line * (size_bytes // len(line) + 1))[:size_bytes]


def members(file):
    """Decompress the members of a file, one by one."""
    found = []
    while file:
        reader = zlib.decompressobj(wbits=31)
        found.append(reader.decompress(file))
        assert reader.eof
        file = reader.unused_data
    return found


def test_the_command_reads_the_members():
    data = text(3 * MIB + 12345)
    file = runs.run(runs.load("gzip"), data)
    assert len(file) < len(data) / 2
    command = ["gzip", "-d", "-c"]
    found = subprocess.run(
        command, input=file, capture_output=True, check=True
    )
    assert found.stdout == data
    assert not found.stderr
    assert gzip.decompress(file) == data
    assert [len(each) for each in members(file)] == [MIB] * 3 + [12345]


@pytest.mark.parametrize("level", [1, 6, 9])
@pytest.mark.parametrize("size_bytes", [1, MIB - 1, MIB, MIB + 1, 2 * MIB])
def test_noise_fits_the_room(level, size_bytes):
    data = random.Random(level).randbytes(size_bytes)
    file = runs.run(runs.load("gzip", level=level), data)
    assert len(file) > size_bytes
    assert gzip.decompress(file) == data


def test_levels():
    sizes_bytes = [
        len(runs.run(runs.load("gzip", level=level), text(MIB)))
        for level in (1, 6, 9)
    ]
    assert sizes_bytes == sorted(sizes_bytes, reverse=True)


@given(
    size_bytes=st.integers(1, 4 * MIB),
    cuts=st.lists(st.integers(0, 4), max_size=3),
)
@settings(max_examples=5)
def test_cuts_change_nothing(size_bytes, cuts):
    data = text(size_bytes)
    core = runs.load("gzip", level=1)
    assert runs.multiple_bytes("gzip", core) == MIB
    output = runs.run(core, data, cuts, MIB)
    assert output == runs.run(core, data)
    assert gzip.decompress(output) == data


@given(data=st.binary(max_size=500))
def test_any_data(data):
    assert gzip.decompress(runs.run(runs.load("gzip"), data)) == data


def test_members_have_no_time():
    assert runs.run(runs.load("gzip"), b"data")[4:8] == bytes(4)


def test_no_input_gives_an_empty_member():
    file = runs.run(runs.load("gzip"), b"")
    subprocess.run(["gzip", "-t"], input=file, check=True)
    assert members(file) == [b""]
