# SPDX-License-Identifier: Apache-2.0

"""AES in cipher block chaining mode."""

import pytest
from cryptography.hazmat.primitives import ciphers
from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.ciphers import modes
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.accelerators import base
from tests.unit.accelerators import runs

KEY = bytes(range(16))
IV = bytes(range(16, 32))

# NIST SP 800-38A, sections F.2.1, F.2.3 and F.2.5.
PLAIN = bytes.fromhex(
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)
VECTORS = {
    "2b7e151628aed2a6abf7158809cf4f3c": (
        "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2"
        "73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7"
    ),
    "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b": (
        "4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a"
        "571b242012fb7ae07fa9baac3df102e008b0e27988598881d920a9e64f5615cd"
    ),
    "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4": (
        "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d"
        "39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b"
    ),
}


def load(direction, key=KEY, iv=IV):
    return runs.load(
        "aes-cbc", key=key.hex(), iv=iv.hex(), direction=direction
    )


def encrypted(data):
    padder = padding.PKCS7(128).padder()
    padded = padder.update(data) + padder.finalize()
    cipher = ciphers.Cipher(algorithms.AES(KEY), modes.CBC(IV))
    return cipher.encryptor().update(padded)


@pytest.mark.parametrize(("key", "secret"), VECTORS.items())
def test_vectors(key, secret):
    key, iv = bytes.fromhex(key), bytes(range(16))
    core = load("encrypt", key, iv)
    assert runs.process(core, PLAIN).hex() == secret
    both = bytes.fromhex(secret) + runs.finish(core)
    assert runs.run(load("decrypt", key, iv), both) == PLAIN


@given(data=st.binary(max_size=300), cuts=runs.CUTS)
def test_encrypts_however_it_is_cut(data, cuts):
    core = load("encrypt")
    assert runs.run(core, data, cuts, unit_bytes=16) == encrypted(data)


@given(data=st.binary(max_size=300), cuts=runs.CUTS)
def test_decrypts_however_it_is_cut(data, cuts):
    core = load("decrypt")
    assert runs.run(core, encrypted(data), cuts, unit_bytes=16) == data


def test_encrypts_unless_told_otherwise():
    core = runs.load("aes-cbc", key=KEY.hex(), iv=IV.hex())
    assert runs.run(core, b"some data") == encrypted(b"some data")


def test_refuses_more_after_an_incomplete_block():
    core = load("encrypt")
    runs.process(core, bytes(17))
    with pytest.raises(base.InvalidInput):
        runs.process(core, bytes(16), 17)


def test_refuses_to_decrypt_an_incomplete_block():
    with pytest.raises(base.InvalidInput) as caught:
        runs.process(load("decrypt"), bytes(20))
    assert caught.value.code == "INVALID_INPUT"
    assert "4 bytes into a block of 16 bytes" in caught.value.message


@pytest.mark.parametrize(
    "secret",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(encrypted(bytes(40))[:32], id="truncated"),
    ],
)
def test_wrong_padding(secret):
    with pytest.raises(base.InvalidInput) as caught:
        runs.run(load("decrypt"), secret)
    assert "padding" in caught.value.message


def test_its_profile():
    profile = base.load_profile("aes-cbc")
    assert (profile.stateless, profile.checkpoint) == (False, True)
    assert profile.chunk_multiple_bytes == 16


@pytest.mark.parametrize("direction", ["encrypt", "decrypt"])
@given(data=st.binary(max_size=300), cuts=runs.CUTS)
def test_goes_on_in_another_core_at_any_border(direction, data, cuts):
    expected = encrypted(data)
    if direction == "decrypt":
        data, expected = expected, data
    core, output, done_bytes = load(direction), b"", 0
    for cut in sorted(16 * cut for cut in cuts):
        piece = data[done_bytes:cut]
        if piece and len(piece) % 16 == 0:
            output += runs.process(core, piece, done_bytes)
            done_bytes += len(piece)
        other = load(direction)
        other.restore(core.snapshot(), done_bytes)
        core = other
    if done_bytes < len(data):
        output += runs.process(core, data[done_bytes:], done_bytes)
    output += runs.finish(core)
    assert output == expected


@pytest.mark.parametrize("direction", ["encrypt", "decrypt"])
@pytest.mark.parametrize("length_bytes", [0, 15, 33, 1000])
def test_refuses_another_state(direction, length_bytes):
    core = load(direction)
    with pytest.raises(base.InvalidInput, match="wrong length"):
        core.restore(bytes(length_bytes), 16)
    assert core.snapshot() == IV
