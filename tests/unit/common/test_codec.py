# SPDX-License-Identifier: Apache-2.0

"""Fast JSON means what the standard library's does."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.common.messaging import codec
from fpgapool.protocol import frames

_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    # Surrogates, too: JSON from a client may have them.
    | st.text(st.characters()),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters()), inner)
    ),
)


@given(_VALUES)
def test_values_come_back(value: object) -> None:
    text = codec.dumps(value)
    assert codec.loads(text) == value
    assert json.loads(text) == value
    assert codec.loads(json.dumps(value)) == value
    assert codec.loads(codec.dump_as_bytes(value)) == value
    message = {"value": value}
    assert codec.decode_json(frames.encode_json(message)) == message


def test_tuples_and_keys_become_what_json_has() -> None:
    assert codec.loads(codec.dumps({1: (2, {3})})) == {"1": [2, [3]]}


def test_numbers_that_are_not_finite() -> None:
    assert codec.loads("[NaN, 1e400]")[1] == math.inf
    assert codec.loads(codec.dumps([math.inf])) == [None]


@pytest.mark.parametrize("text", ["", "{", "nonsense", b"\xff", b'"\xff"'])
def test_what_is_not_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        codec.loads(text)


def test_what_json_cannot_have_is_refused() -> None:
    with pytest.raises(ValueError, match="object"):
        codec.dumps({"a": object()})


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b'"secret',
        b'{"a": NaN}',
        b'{"a": 1e400}',
        b'{"a": "\\ud800"}',
        b'{"a": 1, "a": 2}',
        b'{"a": "\xff"}',
        b'{"a": 01}',
        b"{} x",
        b"\xef\xbb\xbf{}",
        b'{"a": ' + b"[" * 60000 + b"]" * 60000 + b"}",
        b'{"a": "' + b"x" * frames.MAX_JSON_BYTES + b'"}',
    ],
    ids=lambda payload: payload[:12],
)
def test_odd_messages_are_what_they_are_to_the_protocol(
    payload: bytes,
) -> None:
    assert _outcome(codec.decode_json, payload) == _outcome(
        frames.decode_json, payload
    )


def _outcome(
    decode: Callable[[bytes], object], payload: bytes
) -> object | tuple[str, str]:
    try:
        return decode(payload)
    except frames.ProtocolError as error:
        return error.code, error.message
