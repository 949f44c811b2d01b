# SPDX-License-Identifier: Apache-2.0

"""SHA-1 and SHA-256."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.accelerators import base
from tests.unit.accelerators import runs

# FIPS 180-4, the examples of one block, two blocks, and a million letters.
TWO_BLOCKS = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"
EXAMPLES = {
    ("sha1", b"abc"): "a9993e364706816aba3e25717850c26c9cd0d89d",
    ("sha1", TWO_BLOCKS): "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
    ("sha1", b"a" * 10**6): "34aa973cd4c4daa4f61eeb2bdbad27316534016f",
    ("sha256", b"abc"): (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    ),
    ("sha256", TWO_BLOCKS): (
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
    ),
    ("sha256", b"a" * 10**6): (
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
    ),
}


@pytest.mark.parametrize(
    ("algorithm", "data", "digest"),
    [(*key, digest) for key, digest in EXAMPLES.items()],
    ids=lambda value: str(value)[:8],
)
def test_examples_of_the_standard(algorithm, data, digest):
    core = runs.load("sha", algorithm=algorithm)
    assert runs.run(core, data).hex() == digest


@given(data=st.binary(max_size=300), cuts=runs.CUTS)
def test_cuts_change_nothing(data, cuts):
    core = runs.load("sha")
    expected = hashlib.sha256(data).digest()
    assert runs.run(core, data, cuts, unit_bytes=7) == expected


def test_nothing_comes_before_the_end():
    core = runs.load("sha", algorithm="sha1")
    assert core.max_output_bytes(1 << 20) == 0
    assert runs.process(core, b"abc") == b""
    assert core.max_output_bytes(0) == 20


def test_a_digest_cannot_go_on_elsewhere():
    assert not base.load_profile("sha").stateless
