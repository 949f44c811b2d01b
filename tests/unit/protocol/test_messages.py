# SPDX-License-Identifier: Apache-2.0

"""Framing of the front door and of the control socket."""

import hypothesis
import pytest
from hypothesis import strategies as st

from fpgapool.protocol import frames
from fpgapool.protocol import messages

DOCUMENTS = st.dictionaries(
    st.text(max_size=8), st.none() | st.booleans() | st.integers() | st.text()
)


@hypothesis.given(
    st.lists(DOCUMENTS, max_size=5),
    st.lists(st.integers(1, 30), min_size=1, max_size=20),
)
def test_messages_survive_any_division(documents, cuts):
    stream = b"".join(messages.encode(document) for document in documents)
    decoder = messages.MessageDecoder()
    decoded = []
    while stream:
        cut = cuts[0]
        cuts = [*cuts[1:], cut]
        decoded += decoder.feed(stream[:cut])
        stream = stream[cut:]
    assert decoded == documents
    assert not decoder._buffer


@hypothesis.given(st.binary(max_size=200))
def test_random_bytes_raise_protocol_errors_only(data):
    outcome = _attempt(data)
    assert outcome in ("PROTOCOL_ERROR", "FRAME_TOO_LARGE") or all(
        isinstance(document, dict) for document in outcome
    )


def _attempt(data: bytes):
    try:
        return messages.MessageDecoder().feed(data)
    except frames.ProtocolError as exc:
        return exc.code


@pytest.mark.parametrize(
    ("length", "code"),
    [
        (0, "PROTOCOL_ERROR"),
        (messages.MAX_MESSAGE_BYTES + 1, "FRAME_TOO_LARGE"),
        (2**32 - 1, "FRAME_TOO_LARGE"),
    ],
)
def test_wrong_length_is_refused_before_the_message_comes(length, code):
    decoder = messages.MessageDecoder()
    with pytest.raises(frames.ProtocolError) as caught:
        decoder.feed(length.to_bytes(4))
    assert caught.value.code == code


def test_shapes():
    assert messages.request(3, "get", session_id="s") == {
        "id": 3,
        "op": "get",
        "session_id": "s",
    }
    assert messages.reply(3, a=1) == {"id": 3, "ok": True, "a": 1}
    assert messages.error_reply(None, "C", "m") == {
        "id": None,
        "ok": False,
        "error": {"code": "C", "message": "m"},
    }
    assert messages.notification("session", a=1) == {
        "event": "session",
        "a": 1,
    }


def test_messages_are_taken_a_few_at_a_time():
    decoder = messages.MessageDecoder()
    stream = b"".join(messages.encode({"n": n}) for n in range(5))
    taken = [decoder.feed(stream, 2), decoder.feed(b"", 2), decoder.feed(b"")]
    assert [[one["n"] for one in few] for few in taken] == [
        [0, 1],
        [2, 3],
        [4],
    ]
    assert not decoder._buffer
