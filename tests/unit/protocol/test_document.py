# SPDX-License-Identifier: Apache-2.0

"""The examples of the protocol document are real."""

import json
import pathlib
import re
import zlib

import pytest

from fpgapool.protocol import frames
from fpgapool.protocol import messages
from tests.harness import wire

PAGE = pathlib.Path(__file__).parents[3] / "doc/source/reference/protocol.rst"
EXAMPLE = re.compile(
    r"^\.\. hexdump (\w+)\n\n\.\. code-block:: text\n\n((?:   .+\n)+)", re.M
)
ROW = re.compile(r"   ([0-9a-f]{4})  ((?:[0-9a-f]{2} ?){1,16})(?: |$)")


def _parse(block: str) -> bytes:
    data = bytearray()
    for line in block.splitlines():
        position, digits = ROW.match(line).groups()
        assert int(position, 16) == len(data)
        data += bytes.fromhex(digits)
    return bytes(data)


EXAMPLES = {
    name: _parse(block) for name, block in EXAMPLE.findall(PAGE.read_text())
}


def _frame(name: str) -> wire.Frame:
    (frame,) = wire.read(EXAMPLES[name])
    return frame


def test_every_example_is_checked():
    assert set(EXAMPLES) == {
        *("HELLO", "OPENED", "INPUT", "OUTPUT", "ACK_W", "ACK_C"),
        *("CLOSE", "CLOSED", "ERROR", "SHM", "REQUEST", "REPLY"),
        "CHECKSUM",
    }


@pytest.mark.parametrize(
    ("name", "header", "payload"),
    [
        ("INPUT", frames.FrameHeader(3, frames.END, 0, 1, 0, 5), b"hello"),
        (
            "OUTPUT",
            frames.FrameHeader(5, frames.END | frames.TASK_END, 0, 1, 0, 5),
            b"hello",
        ),
        ("ACK_W", frames.FrameHeader(4, 0, 0, 1, 5), b""),
        ("ACK_C", frames.FrameHeader(4, 0, 0, 0, 5), b""),
        ("CLOSE", frames.FrameHeader(6), b""),
        (
            "SHM",
            frames.FrameHeader(3, frames.SHM, 0, 2, 2**22, 2**22, 1),
            b"",
        ),
    ],
)
def test_frames_without_json(name, header, payload):
    assert _frame(name) == wire.Frame(header, payload)


@pytest.mark.parametrize(
    ("name", "kind", "members"),
    [
        (
            "HELLO",
            frames.HELLO,
            "features session_id generation secret transport params",
        ),
        (
            "OPENED",
            frames.OPENED,
            "features resume_secret chunk_bytes window_bytes input_offset "
            "output_offset stateless accelerator chunk_multiple_bytes "
            "max_streams",
        ),
        ("CLOSED", frames.CLOSED, "code input_bytes output_bytes run_s"),
        ("ERROR", frames.ERROR, "code message offset"),
    ],
)
def test_frames_with_json(name, kind, members):
    frame = _frame(name)
    assert frame.header.type == kind
    assert list(json.loads(frame.payload)) == members.split()


def test_checksums():
    frame = _frame("CHECKSUM")
    assert frame.header == frames.FrameHeader(
        frames.CHECKSUM, 0, 0, 1, 5, len(frame.payload)
    )
    # Of the examples of INPUT and OUTPUT, and what the text says of CRC-32.
    crc32 = zlib.crc32(_frame("INPUT").payload)
    assert frames.Checksums.decode(frame.payload) == (5, 5, crc32, crc32)
    assert f"``0x{zlib.crc32(b'123456789'):08x}``" in PAGE.read_text()


def test_messages():
    decode = messages.MessageDecoder().feed
    assert decode(EXAMPLES["REQUEST"]) == [
        messages.request(1, "hello", version=1)
    ]
    (reply,) = decode(EXAMPLES["REPLY"])
    assert reply["error"]["code"] == "UNKNOWN_ACCELERATOR"


@pytest.mark.parametrize("kind", list(frames.FrameType))
def test_every_type_is_documented(kind):
    row = rf"   \* - {kind.value}\n     - ``{kind.name}``\n"
    assert re.search(row, PAGE.read_text())
