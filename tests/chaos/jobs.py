# SPDX-License-Identifier: Apache-2.0

"""What clients do, drawn by a seed, and what must come of it."""

from __future__ import annotations

import dataclasses
import hashlib
import random
import typing

import numpy
from cryptography.hazmat.primitives import ciphers
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.ciphers import modes
from scipy import fft

#: How long a connected client may do nothing.
IDLE_TIMEOUT_S = 6
#: How long a slot waits for its client.
CONNECT_TIMEOUT_S = 30
#: Accelerators that a tenant has uploaded: AES with a key of their own.
TENANT_BITSTREAMS = tuple(f"chaos-{number}" for number in range(5))
#: One of them is so slow that all of a session's window is on its way.
PACED = "chaos-paced"
PACED_BYTES_PER_S = 2e6
TENANT_KEY = "0f" * 16

FRAME_SAMPLES = 64
_SAMPLE_TYPE = numpy.dtype("<c8")
FRAME_BYTES = FRAME_SAMPLES * _SAMPLE_TYPE.itemsize
_LEAST_EXPONENT = 6.0
_LARGEST_EXPONENT = 21.0
#: Of a long stream: four seconds.
LONG_BYTES = 8 << 20
#: It tells after each part of so many bytes that it is under way …
LONG_PART_BYTES = 1 << 20
#: … while so much is left that it will be for another second.
LONG_LEFT_BYTES = 2 << 20

#: What a client does with its session, and how often.
CONDUCTS = {
    "stream": 40,  # all in one go
    "pieces": 30,  # piece by piece
    "slow": 8,  # the same, for seconds
    "cancel": 8,  # cancels after a while
    "early": 8,  # closes before it has sent all
    "silent": 2,  # connects and sends nothing
    "stranger": 4,  # talks nonsense to the front door
}
_ACCELERATORS = {
    "copy": 30,
    "aes": 25,
    "fft": 15,
    "sha": 20,
    TENANT_BITSTREAMS: 10,
}
STATEFUL = frozenset({"sha"})


@dataclasses.dataclass(frozen=True)
class Job:
    """What a client does next.

    :ivar door: number of the front door.
    :ivar patience_s: until it cancels or hangs up, if it does.
    :ivar cut_bytes: after so much its connection breaks; None if it does not.
    """

    accelerator: str
    params: dict[str, typing.Any]
    conduct: str
    size_bytes: int
    data_seed: int
    door: int
    pause_s: float
    patience_s: float
    cut_bytes: int | None = None

    @property
    def stateless(self) -> bool:
        """Whether another slot can go on with it."""
        return self.accelerator not in STATEFUL

    def data(self) -> bytes:
        """Return the input."""
        data = random.Random(self.data_seed).randbytes(self.size_bytes)
        if self.accelerator != "fft":
            return data
        # Any bytes would do, but not every number is equal to itself.
        samples = numpy.frombuffer(data, numpy.int8)[::4]
        return samples.astype("<f4").tobytes()

    def expected(self, data: bytes) -> bytes:
        """Return what the accelerator must make of the input."""
        if self.accelerator == "copy":
            return data
        if self.accelerator == "sha":
            return hashlib.sha256(data).digest()
        if self.accelerator == "fft":
            frames = numpy.frombuffer(data, _SAMPLE_TYPE)
            result = fft.fft(frames.reshape(-1, FRAME_SAMPLES))
            return result.astype(_SAMPLE_TYPE).tobytes()
        return _aes(self.accelerator, self.params, data)


def tenant_iv(name: str) -> str:
    """Return the first counter block of a tenant's accelerator.

    :param name: of TENANT_BITSTREAMS, or PACED.
    """
    names = (*TENANT_BITSTREAMS, PACED)
    return f"{names.index(name) + 1:032x}"


def _aes(name: str, params: dict[str, typing.Any], data: bytes) -> bytes:
    key = params.get("key", bytes.fromhex(TENANT_KEY))
    iv = params.get("iv")
    if iv is None:
        iv = bytes.fromhex(tenant_iv(name))
    cipher = ciphers.Cipher(algorithms.AES(key), modes.CTR(iv)).encryptor()
    return cipher.update(data) + cipher.finalize()


def draw(rng: random.Random, doors: int) -> Job:
    """Choose what a client does next.

    :param doors: how many front doors there are.
    """
    names = rng.choices(
        list(_ACCELERATORS), weights=list(_ACCELERATORS.values())
    )[0]
    name = names if isinstance(names, str) else rng.choice(names)
    size_bytes = int(2 ** rng.uniform(_LEAST_EXPONENT, _LARGEST_EXPONENT))
    params: dict[str, typing.Any] = {}
    if name == "aes":
        params = {"key": rng.randbytes(32), "iv": rng.randbytes(16)}
    if name == "fft":
        params = {"frame_samples": FRAME_SAMPLES}
        size_bytes += -size_bytes % FRAME_BYTES
    return Job(
        accelerator=name,
        params=params,
        conduct=rng.choices(list(CONDUCTS), list(CONDUCTS.values()))[0],
        size_bytes=size_bytes,
        data_seed=rng.getrandbits(32),
        door=rng.randrange(doors),
        pause_s=rng.uniform(0.0, 1.0),
        patience_s=rng.uniform(0.0, 2.0),
    )


def draw_long(rng: random.Random, doors: int) -> Job:
    """Choose the next long stream.

    :param doors: how many front doors there are.
    """
    return Job(
        accelerator=PACED,
        params={},
        conduct="long",
        size_bytes=LONG_BYTES,
        data_seed=rng.getrandbits(32),
        door=rng.randrange(doors),
        pause_s=rng.uniform(0.0, 1.0),
        patience_s=0.0,
        cut_bytes=rng.randrange(LONG_PART_BYTES, LONG_BYTES - LONG_LEFT_BYTES),
    )
