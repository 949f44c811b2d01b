# SPDX-License-Identifier: Apache-2.0

"""Expressions of manifests, compared with Python's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.drivers.opencl.contents import expressions

VARIABLES = {"blocks": 7, "k": 4, "m": 0, "length_bytes": 65536}
SUMS = st.recursive(
    st.integers(0, 10**6).map(str) | st.sampled_from(sorted(VARIABLES)),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/%"), inner).map(" ".join),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(
            lambda each: f"{each[0]}({each[1]},{each[2]})"
        ),
        inner.map("({})".format),
    ),
    max_leaves=8,
)


@given(SUMS)
def test_value_is_that_of_python(text):
    try:
        expected = eval(text.replace("/", "//"), {}, dict(VARIABLES))
    except ZeroDivisionError:
        expected = None
    refusal = ""
    try:
        found = expressions.Expression(text).value(VARIABLES)
    except ValueError as error:
        refusal = str(error)
    if refusal:
        assert expected is None or len(text) > 200 or "large" in refusal
    else:
        assert found == expected


@given(st.text("0123456789kbm+-*/%(), \u0661", max_size=30))
def test_any_text_is_read_or_refused(text):
    try:
        found = expressions.Expression(text)
    except ValueError:
        return
    assert all(name[0] in "kbm" for name in found.names)
    assert text.isascii()


def test_names():
    found = expressions.Expression("min(blocks, 64) * k + 1")
    assert found.names == {"blocks", "k"}
    assert found.value(VARIABLES) == 29
    assert expressions.Expression(16).value({}) == 16


def test_values_on_the_way_are_bounded_too():
    found = expressions.Expression("9223372036854775807 * 2 / 4")
    with pytest.raises(ValueError, match="exceeds"):
        found.value({})
