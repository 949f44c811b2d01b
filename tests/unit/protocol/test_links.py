# SPDX-License-Identifier: Apache-2.0

"""LINK, and the handshake of a link."""

from __future__ import annotations

import pytest

from fpgapool.protocol import frames
from fpgapool.protocol import links

SECRET = "5ec7e7"
HASH = "ab" * 32
TARGET = links.Target("session", 7, SECRET, HASH, True)


@pytest.mark.parametrize(
    "order",
    [
        links.Order(),
        links.Order(HASH),
        links.Order(None, True, None),
        links.Order(None, True, TARGET),
        links.Order(HASH, True, links.Target("session", 7, SECRET)),
    ],
)
def test_an_order_is_read_as_it_was_written(order) -> None:
    frame = order.frame()
    header = frames.FrameHeader.unpack_from(frame)
    assert header.type == frames.LINK
    assert header.optional
    assert links.parse(frame[frames.HEADER_BYTES :]) == order


@pytest.mark.parametrize(
    "document",
    [
        {"from": {}},
        {"from": {"secret_sha256": "x"}},
        {"from": None},
        {"to": {}},
        {"to": 1},
        {"to": {"session_id": "s", "generation": -1, "secret": "x"}},
        {"to": {**TARGET._asdict(), "certificate_sha256": "x"}},
        {"to": {**TARGET._asdict(), "address": "192.0.2.1"}},
    ],
)
def test_invalid_orders(document) -> None:
    with pytest.raises(frames.ProtocolError):
        links.parse(frames.encode_json(document))


def test_a_secret_is_in_no_repr() -> None:
    assert SECRET not in repr(links.Order(HASH, True, TARGET))


def test_the_handshake() -> None:
    hello = frames.decode_json(links.hello(TARGET)[frames.HEADER_BYTES :])
    assert hello == {
        "session_id": "session",
        "generation": 7,
        "link_secret": SECRET,
    }
    opened = links.opened(2**40)
    document = frames.decode_json(opened[frames.HEADER_BYTES :])
    assert links.start_bytes(document) == 2**40
    with pytest.raises(frames.ProtocolError):
        links.start_bytes({})


@pytest.mark.parametrize("kind", [frames.INPUT, frames.OUTPUT])
def test_linked_data_is_not_on_the_wire(kind) -> None:
    header = frames.FrameHeader(
        kind, frames.LINKED, payload_length_bytes=2**20
    )
    read = frames.FrameHeader.unpack_from(header.pack())
    assert read.wire_payload_bytes == 0
    assert read.payload_length_bytes == 2**20
