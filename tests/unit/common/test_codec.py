# SPDX-License-Identifier: Apache-2.0

"""JSON for remote calls means what the standard library's does."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.common import codec

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
