# SPDX-License-Identifier: Apache-2.0

"""Files and documents that are small to send and large to take in."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest

from fpgapool.bitstreams import files
from fpgapool.bitstreams import intake
from fpgapool.common import exception
from fpgapool.objects import declaration
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from tests.unit.bitstreams import samples

MIB = 1024 * 1024
#: Of memory, for reading a document of 64 KiB.
ENOUGH_BYTES = 16 * MIB

SOUND = {
    "format_version": 1,
    "name": "mine",
    "core": "aes",
    "peak_bytes_per_s": 1e9,
}


def _with(text: str) -> bytes:
    """Return a declaration whose parameter ``a`` is some JSON."""
    return (
        json.dumps({**SOUND, "params": {"a": 0}})
        .replace('"a": 0', f'"a": {text}')
        .encode()
    )


BOMBS = {
    "lists in lists": _with("[" * 20_000 + "]" * 20_000),
    "objects in objects": _with('{"a":' * 9_000 + "1" + "}" * 9_000),
    "lists without end": _with("[" * 50_000),
    "many digits": _with("9" * 50_000),
    "many negative digits": _with("-" + "9" * 50_000),
    "large exponent": _with("1e999999999"),
    "many decimals and an exponent": _with("1." + "9" * 50_000 + "e999"),
    "no number": _with("NaN"),
    "infinity": _with("-Infinity"),
    "the same member": _with("{" + ",".join(['"a": 1'] * 5_000) + "}"),
    "half characters": _with('"' + "\\ud83d" * 5_000 + '"'),
    "zeros": _with('"' + "\\u0000" * 5_000 + '"'),
    "compressed": gzip.compress(_with('"' + "x" * 10 * MIB + '"')),
    "compressed zeros": gzip.compress(bytes(50 * MIB)),
    "other encoding": _with('"x"').decode().encode("utf-16"),
    "longer than allowed": _with('"' + "x" * 70_000 + '"'),
}


def _peak_bytes(call) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", BOMBS)
def test_declarations(name):
    """A bomb is refused as what is wrong with it, in little memory."""

    def parse() -> None:
        with pytest.raises(ValueError, match="declaration"):
            declaration.parse(BOMBS[name])

    assert _peak_bytes(parse) < ENOUGH_BYTES


@pytest.mark.parametrize("name", BOMBS)
def test_frames(name):
    """The same documents in frames and messages."""

    def decode() -> None:
        try:
            document = frames.decode_json(BOMBS[name])
        except frames.ProtocolError:
            return
        # What is only odd can be read; it does no harm.
        assert document["name"] == "mine"

    assert _peak_bytes(decode) < ENOUGH_BYTES


RECORD = samples.record()


class Endless:
    """A sender that never ends; it counts what was taken."""

    def __init__(self) -> None:
        self.sent_bytes = 0

    def read(self, size: int, /) -> bytes:
        self.sent_bytes += size
        return bytes(size)


@pytest.mark.parametrize("length_bytes", [None, 1, 2**63])
def test_endless_uploads(tmp_path, length_bytes):
    """What never ends is cut off; nothing of it stays."""
    sender = Endless()
    incoming = intake.Intake(sender, length_bytes, MIB)
    with pytest.raises(exception.BitstreamRefused) as caught:
        files.FileStore(tmp_path).write(RECORD, incoming)
    assert caught.value.code == codes.BITSTREAM_TOO_LARGE
    assert sender.sent_bytes <= MIB + 64 * 1024
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_compressed_files_stay_compressed(tmp_path):
    """Nobody unpacks a file: its size is what was sent."""
    packed = gzip.compress(bytes(50 * MIB))
    incoming = samples.incoming(packed, max_bytes=MIB)
    store = files.FileStore(tmp_path)
    location = store.write(RECORD, incoming)
    assert b"".join(store.read(location)) == packed
