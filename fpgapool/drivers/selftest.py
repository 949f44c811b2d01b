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

"""Whether a slot computes what it should: a known answer for each core.

Only what a session would use is used: the slot is programmed already, and
is opened, fed and asked for its output through the driver.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
import typing
import zlib

from fpgapool.accelerators import base as accelerators
from fpgapool.core import codes
from fpgapool.drivers import base

# One word of the right answer says enough; more may fill a log.
_SHOWN_BYTES = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Vector:
    """An input whose output is known."""

    params: dict[str, typing.Any]
    data: bytes
    output: bytes


# From NIST SP 800-38A.
_AES_KEY = "2b7e151628aed2a6abf7158809cf4f3c"
_AES_BLOCK = bytes.fromhex("6bc1bee22e409f96e93d7e117393172a")

_TEXT = b"a known answer"

#: By the name of the software core that does the same. All parameters are
#: given, so that one which a bitstream fixes otherwise is refused.
VECTORS = {
    "copy": Vector({}, _TEXT, _TEXT),
    "aes": Vector(
        {"key": _AES_KEY, "iv": "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"},
        _AES_BLOCK,
        bytes.fromhex("874d6191b620e3261bef6864990db6ce"),
    ),
    "aes-cbc": Vector(
        {
            "key": _AES_KEY,
            "iv": "000102030405060708090a0b0c0d0e0f",
            "direction": "encrypt",
        },
        _AES_BLOCK,
        bytes.fromhex(
            "7649abac8119b246cee98e9b12e9197d8964e0b149c10b7b682e6e39aaeb731c"
        ),
    ),
    "sha": Vector(
        {"algorithm": "sha256"}, _TEXT, hashlib.sha256(_TEXT).digest()
    ),
    # An impulse has all frequencies alike.
    "fft": Vector(
        {"frame_samples": 4, "inverse": False, "norm": "backward"},
        struct.pack("<8f", 1, 0, 0, 0, 0, 0, 0, 0),
        struct.pack("<8f", 1, 0, 1, 0, 1, 0, 1, 0),
    ),
    # Four differences of 1.
    "dtw": Vector(
        {"length_samples": 4, "dtype": "float32"},
        struct.pack("<8f", 0, 0, 0, 0, 1, 1, 1, 1),
        struct.pack("<d", 2.0),
    ),
    # With one fragment of each kind, both are the data.
    "ec": Vector(
        {"mode": "encode", "k": 1, "m": 1, "stripe_bytes": 256},
        _TEXT,
        struct.pack(
            ">4sBBBBII", b"FPEC", 1, 1, 1, 0, len(_TEXT), zlib.crc32(_TEXT)
        )
        + _TEXT
        + _TEXT,
    ),
}


def run(
    driver: base.Driver, device: str, slot: int, profile: base.Profile
) -> None:
    """Let a programmed slot compute what it should, if that is known.

    Blocks for as long as the slot computes. The slot has to be scrubbed
    afterwards.

    :param driver: of the slot.
    :param device: name of the device.
    :param slot: number of the slot in it.
    :param profile: what programming it has returned. One for which no
        answer is known has passed by having been programmed.
    :raises base.DriverError: ``SELF_TEST_FAILED``.
    """
    vector = VECTORS.get(profile.core)
    if vector is None:
        return
    try:
        driver.expect(device, slot, base.Traffic())
        core = driver.open(device, slot, vector.params)
    except accelerators.InvalidParams:
        # A bitstream that leaves these to nobody.
        return
    except Exception as exc:
        raise _failure(f"cannot be opened: {type(exc).__name__}") from exc
    try:
        output = _compute(core, vector.data)
    except Exception as exc:
        # Whatever a driver raises when it cannot go on.
        raise _failure(f"does not compute: {type(exc).__name__}") from exc
    finally:
        core.cancel()
    if output != vector.output:
        raise _failure(
            f"computes a wrong result: {_shown(output)} instead of"
            f" {_shown(vector.output)}"
        )


def _compute(core: base.Core, data: bytes) -> bytes:
    # A core that works in place needs no room of its own, but may have it.
    room = bytearray(core.max_output_bytes(len(data)))
    count = core.process(memoryview(bytearray(data)), memoryview(room), 0)
    output = bytes(room[:count])
    room = bytearray(core.max_output_bytes(0))
    return output + bytes(room[: core.finish(memoryview(room))])


def _shown(output: bytes) -> str:
    dots = "..." if len(output) > _SHOWN_BYTES else ""
    return f"{output[:_SHOWN_BYTES].hex()}{dots} ({len(output)} bytes)"


def _failure(message: str) -> base.DriverError:
    return base.DriverError(codes.SELF_TEST_FAILED, f"the slot {message}")
