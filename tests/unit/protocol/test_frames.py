# SPDX-License-Identifier: Apache-2.0

"""The data plane's frames."""

import json

import hypothesis
import pytest
from hypothesis import strategies as st

from fpgapool.protocol import frames
from tests.harness import wire

# Frames of these types may have as much data as fits.
LONG_TYPES = frames.DATA_TYPES | set(range(128, 256)) - (
    frames.JSON_TYPES | frames.EMPTY_TYPES
)
HEADERS = st.builds(
    frames.FrameHeader,
    type=st.sampled_from(sorted(LONG_TYPES)),
    flags=st.sampled_from([0, frames.END, frames.TASK_END]),
    stream_id=st.integers(0, 2**32 - 1),
    task_id=st.integers(0, 2**32 - 1),
    offset_bytes=st.integers(0, 2**64 - 1),
    payload_length_bytes=st.integers(0, frames.MAX_DATA_BYTES),
    aux=st.integers(0, 2**32 - 1),
)


CODES = ("PROTOCOL_ERROR", "FRAME_TOO_LARGE")


def _attempt(function, data: bytes):
    """Return the result, or the code of the protocol error."""
    try:
        return function(data)
    except frames.ProtocolError as exc:
        return exc.code


def _code(data: bytes, **options) -> str:
    with pytest.raises(frames.ProtocolError) as caught:
        frames.FrameHeader.unpack_from(data, **options)
    return caught.value.code


@hypothesis.given(HEADERS)
def test_header_survives(header):
    assert frames.FrameHeader.unpack_from(header.pack()) == header


def test_layout():
    header = frames.FrameHeader(3, 1, 2, 3, 4, 5, 6)
    assert header.pack().hex(" ") == (
        "46 50 01 03 00 01 00 00 00 00 00 02 00 00 00 03 "
        "00 00 00 00 00 00 00 04 00 00 00 05 00 00 00 06"
    )


@hypothesis.given(st.binary(max_size=200))
def test_random_bytes_raise_protocol_errors_only(data):
    outcome = _attempt(wire.read, data)
    assert (
        outcome in CODES
        or len(data) < frames.HEADER_BYTES
        or data[:3] == b"FP\x01"
    )


@hypothesis.given(st.binary(min_size=28, max_size=28), st.integers(0, 255))
def test_random_headers_raise_protocol_errors_only(rest, kind):
    data = b"FP\x01" + bytes([kind]) + rest
    outcome = _attempt(frames.FrameHeader.unpack_from, data)
    assert outcome in CODES or outcome.pack() == data


@hypothesis.given(
    st.lists(
        st.tuples(
            st.sampled_from([frames.INPUT, frames.OUTPUT, 200]),
            st.binary(max_size=50),
        ),
        max_size=6,
    ),
    st.lists(st.integers(1, 40), min_size=1, max_size=30),
)
def test_frames_survive_any_division(contents, cuts):
    stream = b"".join(
        frames.FrameHeader(kind, payload_length_bytes=len(payload)).pack()
        + payload
        for kind, payload in contents
    )
    pieces = []
    while stream:
        cut = cuts[0]
        cuts = [*cuts[1:], cut]
        pieces.append(stream[:cut])
        stream = stream[cut:]
    decoded = wire.read(pieces)
    assert [(f.header.type, f.payload) for f in decoded] == contents


def test_a_truncated_frame_is_none():
    frame = frames.encode_frame(frames.FrameHeader(frames.HELLO), {"a": 1})
    for length in range(len(frame)):
        assert wire.read(frame[:length]) == []
    assert len(wire.read(frame)) == 1


def test_shared_payload_is_not_on_the_wire():
    header = frames.FrameHeader(
        frames.INPUT, frames.SHM, payload_length_bytes=4096
    )
    assert wire.read(header.pack()) == [wire.Frame(header, b"")]


@pytest.mark.parametrize(
    ("kind", "length_bytes"),
    [
        (frames.INPUT, frames.MAX_DATA_BYTES + 1),
        (frames.OUTPUT, 2**32 - 1),
        (200, frames.MAX_DATA_BYTES + 1),
        (frames.HELLO, frames.MAX_JSON_BYTES + 1),
        (frames.ACK, 1),
        (frames.CLOSE, 1),
    ],
)
def test_too_large(kind, length_bytes):
    header = frames.FrameHeader(kind, payload_length_bytes=length_bytes)
    assert _code(header.pack()) == "FRAME_TOO_LARGE"


def test_own_limit_of_data():
    header = frames.FrameHeader(frames.INPUT, payload_length_bytes=101)
    assert _code(header.pack(), max_data_bytes=100) == "FRAME_TOO_LARGE"
    assert frames.FrameHeader.unpack_from(
        header.pack(), max_data_bytes=101
    ) == (header)


@pytest.mark.parametrize(
    ("position", "value"),
    [(0, 0), (1, 0), (2, 2), (3, 0), (3, 11), (3, 127), (6, 1), (7, 1)],
)
def test_wrong_header(position, value):
    data = bytearray(frames.FrameHeader(frames.ACK).pack())
    data[position] = value
    assert _code(data) == "PROTOCOL_ERROR"


def test_shm_flag_where_it_has_no_meaning():
    header = frames.FrameHeader(frames.ACK, frames.SHM)
    assert _code(header.pack()) == "PROTOCOL_ERROR"


def test_short_buffer():
    assert _code(b"FP") == "PROTOCOL_ERROR"


@pytest.mark.parametrize("field", ["flags", "task_id", "offset_bytes"])
@pytest.mark.parametrize("value", [-1, 2**64])
def test_value_that_does_not_fit(field, value):
    with pytest.raises(ValueError, match="cannot encode"):
        frames.FrameHeader(frames.ACK)._replace(**{field: value}).pack()


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"1",
        b"null",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b"\xff{}",
        b"{" * 10,
        b"[" * 60000,
        b'{"a": ' + b"9" * 10000 + b"}",
    ],
)
def test_not_a_json_object(payload):
    with pytest.raises(frames.ProtocolError) as caught:
        frames.decode_json(payload)
    assert caught.value.code == "PROTOCOL_ERROR"


def test_errors_do_not_quote_the_peer():
    with pytest.raises(frames.ProtocolError) as caught:
        frames.decode_json(b'{"secret": "c0ffee"')
    assert "c0ffee" not in str(caught.value)


@hypothesis.given(st.binary(max_size=300))
def test_random_json_raises_protocol_errors_only(payload):
    outcome = _attempt(frames.decode_json, payload)
    assert outcome == "PROTOCOL_ERROR" or outcome == json.loads(payload)


def test_json_limit():
    with pytest.raises(ValueError, match="limit of"):
        frames.encode_json({"a": "x" * frames.MAX_JSON_BYTES})
    with pytest.raises(frames.ProtocolError) as caught:
        frames.decode_json(b" " * (frames.MAX_JSON_BYTES + 1))
    assert caught.value.code == "FRAME_TOO_LARGE"


@pytest.mark.parametrize("value", [object(), float("nan"), b"x"])
def test_not_encodable(value):
    with pytest.raises(ValueError):
        frames.encode_json({"a": value})


def test_error_frame():
    (frame,) = wire.read(frames.error_frame("BAD_OFFSET", "m" * 5000, 7))
    assert (frame.header.type, frame.header.offset_bytes) == (8, 7)
    assert json.loads(frame.payload) == {
        "code": "BAD_OFFSET",
        "message": "m" * 1024,
        "offset": 7,
    }


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({}, str),
        ({"a": 1}, str),
        ({"a": True}, int),
        ({"a": None}, dict),
        ({"a": True}, (int, float)),
    ],
)
def test_required_member(document, kind):
    with pytest.raises(frames.ProtocolError):
        frames.require(document, "a", kind)
    assert frames.require({"a": True}, "a", bool) is True
    assert frames.require({"a": 2}, "a", (int, float)) == 2


@pytest.mark.parametrize("value", [-1, 2**64, 1.5, "1", False])
def test_offset_member(value):
    with pytest.raises(frames.ProtocolError):
        frames.checked(frames.OFFSET, value, "a")
    assert frames.checked(frames.OFFSET, 2**64 - 1, "a") == 2**64 - 1


@hypothesis.given(
    st.tuples(
        st.integers(0, 2**64 - 1),
        st.integers(0, 2**64 - 1),
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**32 - 1),
    )
)
def test_checksums_come_back(values):
    sums = frames.Checksums(*values)
    assert frames.Checksums.decode(sums.encode()) == sums


@pytest.mark.parametrize("member", range(4))
@pytest.mark.parametrize("value", [-1, 2**64, "1", None])
def test_checksums_that_do_not_fit(member, value):
    sums = frames.Checksums(*(value if i == member else 0 for i in range(4)))
    with pytest.raises(ValueError, match="cannot encode"):
        sums.encode()


@pytest.mark.parametrize("length_bytes", [0, 23, 25])
def test_checksums_of_another_length(length_bytes):
    with pytest.raises(frames.ProtocolError) as caught:
        frames.Checksums.decode(bytes(length_bytes))
    assert caught.value.code == "PROTOCOL_ERROR"


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ({}, set()),
        ({"features": None}, set()),
        ({"features": []}, set()),
        ({"features": ["checksum", "later"]}, {"checksum", "later"}),
    ],
)
def test_features(document, names):
    assert frames.features(document) == names


@pytest.mark.parametrize("value", ["checksum", {"a": 1}, [None], 7, [["a"]]])
def test_features_that_are_no_names(value):
    with pytest.raises(frames.ProtocolError) as caught:
        frames.features({"features": value})
    assert caught.value.code == "PROTOCOL_ERROR"
