# SPDX-License-Identifier: Apache-2.0

"""The accelerators in a real worker process, by the client library."""

import hashlib
import pathlib
import random
import struct
from collections.abc import Iterator

import numpy
import pytest
from cryptography.hazmat.primitives import ciphers
from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.ciphers import modes

from fpgapool import client
from tests.functional.client import breaking
from tests.functional.worker import harness
from tests.harness import slots

TIMEOUT_S = breaking.TIMEOUT_S
CHUNKS = 20
KEY = bytes(range(16))
IV = bytes(range(16, 32))


@pytest.fixture(scope="module", params=["shm", "tcp"])
def door(
    request: pytest.FixtureRequest, directory: pathlib.Path
) -> Iterator[slots.Door]:
    """Give a front door whose sessions run one after the other."""
    own = directory / request.param
    own.mkdir()
    with slots.Door(own, request.param) as made:
        yield made


def run(door: slots.Door, accelerator: str, data: bytes, **params) -> bytes:
    output, report = client.run_buffer(
        accelerator,
        data,
        params=params,
        front_door=door.path,
        timeout_s=TIMEOUT_S,
    )
    assert report.input_bytes == len(data)
    assert report.output_bytes == len(output)
    return bytes(output)


def random_bytes(length_bytes: int) -> bytes:
    return random.Random(length_bytes).randbytes(length_bytes)


@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
def test_sha(door, algorithm):
    data = random_bytes(CHUNKS * harness.CHUNK_BYTES + 99)
    digest = run(door, "sha", data, algorithm=algorithm)
    assert digest == hashlib.new(algorithm, data).digest()


def test_sha_over_breaking_connections(door):
    data = random_bytes(CHUNKS * harness.CHUNK_BYTES)
    breaker = breaking.Breaker()
    breaks = [3, 11, 17]

    def progress(done_bytes, _total_bytes):
        if breaks and done_bytes >= breaks[0] * harness.CHUNK_BYTES:
            del breaks[0]
            breaker.break_connection()

    output, report = client.run_buffer(
        "sha",
        data,
        front_door=door.path,
        cancel=breaker,
        progress=progress,
        timeout_s=TIMEOUT_S,
    )
    assert output == hashlib.sha256(data).digest()
    assert report.reconnects > 0


@pytest.mark.long
def test_aes_cbc(door):
    data = random_bytes(CHUNKS * harness.CHUNK_BYTES + 4711)
    padder = padding.PKCS7(128).padder()
    padded = padder.update(data) + padder.finalize()
    cipher = ciphers.Cipher(algorithms.AES(KEY), modes.CBC(IV))
    params = {"key": KEY, "iv": IV}
    secret = run(door, "aes-cbc", data, **params)
    assert secret == cipher.encryptor().update(padded)
    assert run(door, "aes-cbc", secret, direction="decrypt", **params) == data


def test_fft(door):
    frame_samples = 1000
    values = numpy.random.default_rng(1).standard_normal(
        (200 * frame_samples, 2)
    )
    data = values.astype("<f4").tobytes()
    output = run(door, "fft", data, frame_samples=frame_samples)
    frames = numpy.frombuffer(data, "<c8").reshape(-1, frame_samples)
    expected = numpy.fft.fft(frames.astype(complex))
    found = numpy.frombuffer(output, "<c8").reshape(expected.shape)
    assert numpy.abs(found - expected).max() < 1e-5 * abs(expected).max()


def test_ec(door):
    stripe_bytes, k, m, missing = 3000, 3, 2, [0, 3]
    data = random_bytes(300 * stripe_bytes + 1000)
    params = {"k": k, "m": m, "stripe_bytes": stripe_bytes}
    encoded = run(door, "ec", data, **params)
    rest = bytearray()
    position = 0
    while position < len(encoded):
        header = encoded[position : position + 16]
        (data_bytes,) = struct.unpack_from(">I", header, 8)
        fragment_bytes = -(-data_bytes // k)
        rest += header
        for index in range(k + m):
            start = position + 16 + index * fragment_bytes
            if index not in missing:
                rest += encoded[start : start + fragment_bytes]
        position += 16 + (k + m) * fragment_bytes
    found = run(
        door, "ec", rest, mode="reconstruct", missing=missing, **params
    )
    assert found == data


@pytest.mark.parametrize(
    ("accelerator", "params"),
    [
        ("fft", {"frame_samples": 64}),
        ("dtw", {"length_samples": 64}),
        ("align", {"query_symbols": 64, "target_symbols": 64}),
        ("sw", {"query_symbols": 64, "target_symbols": 64}),
        ("ec", {"mode": "reconstruct", "stripe_bytes": 1000}),
        ("aes-cbc", {"key": KEY, "iv": IV, "direction": "decrypt"}),
    ],
)
@pytest.mark.parametrize("length_bytes", [5, 3 * harness.CHUNK_BYTES + 5])
def test_input_of_a_wrong_size(
    door, tmp_path, accelerator, params, length_bytes
):
    source, destination = tmp_path / "in", tmp_path / "out"
    source.write_bytes(bytes(length_bytes))
    with pytest.raises(client.SessionFailed) as caught:
        client.run_file(
            accelerator,
            source,
            destination,
            params=params,
            front_door=door.path,
            timeout_s=TIMEOUT_S,
        )
    assert caught.value.code == "INVALID_INPUT"
    assert not destination.exists()


def open_session(door, accelerator, **params):
    return client.acc_open(
        accelerator,
        1,
        params=params,
        front_door=door.path,
        timeout_s=TIMEOUT_S,
    )


def test_piece_that_is_no_multiple_is_the_last_one(door):
    with open_session(door, "ec", stripe_bytes=1000) as session:
        session.run(2000, timeout_s=TIMEOUT_S)
        session.run(30, timeout_s=TIMEOUT_S)
        with pytest.raises(client.SessionFailed) as caught:
            session.run(1000, timeout_s=TIMEOUT_S)
    assert caught.value.code == "BAD_OFFSET"
    assert "1000 bytes" in caught.value.message


@pytest.mark.parametrize(
    ("accelerator", "params", "word"),
    [
        ("fft", {"frame_samples": "64"}, "'frame_samples'"),
        # A frame that no chunk of this worker holds.
        ("fft", {"frame_samples": 8193}, "pieces of 65544 bytes"),
        ("gzip", {}, "pieces of 1048576 bytes"),
    ],
)
def test_params_that_do_not_suit(door, accelerator, params, word):
    with pytest.raises(client.InvalidParams) as caught:
        open_session(door, accelerator, **params)
    assert word in caught.value.message
