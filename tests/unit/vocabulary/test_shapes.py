# SPDX-License-Identifier: Apache-2.0

"""What strangers send has its shape, or the place and the fault are named."""

import copy
import functools
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.vocabulary import shapes

BOARD = shapes.Members(
    {"name": shapes.matching("[a-z]{1,8}", "1 to 8 small letters")},
    {
        "slots": shapes.integer(1, 64),
        "power_w": shapes.nullable(shapes.number(0, 1e4)),
    },
)
FILE = shapes.Members(
    {"boards": shapes.list_of(BOARD, 1, 2)},
    {"labels": shapes.mapping_of(shapes.text(5), 2, shapes.text(3))},
)


@pytest.mark.parametrize(
    ("shape", "value", "found"),
    [
        (shapes.integer(), 10**30, 10**30),
        (shapes.integer(0), 0, 0),
        (shapes.number(0, 1), 1, 1.0),
        (shapes.number(), -2.5, -2.5),
        (shapes.flag, False, False),
        (shapes.text(), "", ""),
        (shapes.text(3, least=1, printable=True), "abc", "abc"),
        (shapes.one_of(("a", "b")), "b", "b"),
        (shapes.exactly(1), 1, 1),
        (shapes.anything, [None], [None]),
        (shapes.nullable(shapes.flag), None, None),
        (shapes.list_of(shapes.text(), distinct=True), ["a", "b"], ["a", "b"]),
        (BOARD, {"name": "a"}, {"name": "a"}),
        (
            BOARD,
            {"power_w": None, "name": "a"},
            {"name": "a", "power_w": None},
        ),
        (
            shapes.Members({"a": shapes.flag}, others=True),
            {"a": True, "b": 1},
            {"a": True},
        ),
        (
            shapes.Members({}, {"a": shapes.flag}, nulls=("a",)),
            {"a": None},
            {},
        ),
    ],
)
def test_what_has_its_shape_is_returned(
    shape: shapes.Shape[object], value: object, found: object
) -> None:
    assert shape(value, "x") == found


@pytest.mark.parametrize(
    ("shape", "value", "fault"),
    [
        (shapes.integer(), True, "x: must be an integer"),
        (shapes.integer(), 1.0, "x: must be an integer"),
        (shapes.integer(1, 3), 4, "x: must be an integer from 1 to 3"),
        (shapes.integer(1), 0, "x: must be an integer of at least 1"),
        (shapes.number(0, 1), float("nan"), "x: must be a number from 0 to 1"),
        (shapes.number(), float("inf"), "x: must be a number"),
        (
            shapes.number(),
            10**400,
            "x: is too large for a floating-point number",
        ),
        (shapes.number(), "1", "x: must be a number"),
        (
            shapes.number(most=1e15),
            2e15,
            "x: must be a number of at most 1e+15",
        ),
        (shapes.flag, 1, "x: must be true or false"),
        (shapes.text(), 1, "x: must be a string"),
        (shapes.text(3), "abcd", "x: must be at most 3 characters"),
        (shapes.text(least=1), "", "x: must not be empty"),
        (shapes.text(least=2), "a", "x: must be at least 2 characters"),
        (shapes.number(above=0), 0, "x: must be a number above 0"),
        (
            shapes.number(0, below=9),
            9.0,
            "x: must be a number of at least 0 and below 9",
        ),
        (shapes.text(printable=True), "a\n", "x: must be one printable line"),
        (shapes.matching("[0-9]", "a digit"), "\u0661", "x: must be a digit"),
        (shapes.one_of(("a", "b")), "c", "x: must be one of: a, b"),
        (shapes.one_of(("a", "b")), ["a"], "x: must be one of: a, b"),
        (shapes.exactly(1), True, "x: must be 1"),
        (shapes.list_of(shapes.flag), {}, "x: must be a list"),
        (shapes.list_of(shapes.flag, 1), [], "x: must have at least 1 values"),
        (shapes.list_of(shapes.flag), [1], "x[0]: must be true or false"),
        (
            shapes.list_of(shapes.text(), distinct=True),
            ["a", "a"],
            "x: must not have duplicate members",
        ),
        (shapes.mapping_of(shapes.flag), [], "x: must be an object"),
        (shapes.mapping_of(shapes.flag), {1: True}, "x.1: the name must be"),
        (
            shapes.mapping_of(shapes.flag, 0),
            {"a": 1},
            "x: must have at most 0",
        ),
        (BOARD, [], "x: must be an object"),
        (BOARD, {}, "x.name: is missing"),
        (
            BOARD,
            {"name": "a", "b": 1},
            "x: unknown member 'b'; known members: name",
        ),
    ],
)
def test_what_has_not_is_refused(
    shape: shapes.Shape[object], value: object, fault: str
) -> None:
    with pytest.raises(shapes.Invalid, match=re.escape(fault)):
        shape(value, "x")


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({}, "boards: is missing"),
        ({"boards": [{"name": "A"}]}, "boards[0].name: must be 1 to 8 small"),
        (
            {"boards": [{"name": "a"}, {"name": "b", "slots": 65}]},
            "boards[1].slots: must be an integer from 1 to 64",
        ),
        (
            {"boards": [{"name": "a"}] * 3},
            "boards: must have at most 2 values",
        ),
        (
            {"boards": [{"name": "a"}], "labels": {"long name": "a"}},
            "labels.long name: must be at most 3 characters",
        ),
        (
            {"boards": [{"name": "a"}], "labels": {"a": "too long"}},
            "labels.a: must be at most 5 characters",
        ),
    ],
)
def test_the_place_is_named(document: object, fault: str) -> None:
    with pytest.raises(shapes.Invalid) as caught:
        FILE(document, "")
    assert str(caught.value).startswith(fault)


#: What parsers accept, and programs do not expect.
_ODD = {
    "true": True,
    "not a number": float("nan"),
    "infinite": float("-inf"),
    "huge": 10**5000,
    "negative": -(2**63) - 1,
    "NUL character": "\0",
    "lone surrogate": "\ud800",
    "line breaks": "a\r\n\u2028b",
    "long": "x" * 100_000,
    "nested": functools.reduce(lambda inner, _: [inner], range(900), []),
    "bytes": b"a",
    "names that are none": {1: 1, None: 2, (): 3},
    "odd names": {"\0": 1, "\ud800": 2, "": 3},
    "unhashable": [{}],
    "null": None,
}
_STRICT = {
    "integer": shapes.integer(0, 64),
    "number": shapes.number(0, 64),
    "exactly": shapes.exactly(1),
    "text": shapes.text(9, least=1, printable=True, storable=True),
    "matching": shapes.matching("[0-9]{1,9}", "digits"),
    "one of": shapes.one_of(("a", "b")),
    "list": shapes.list_of(shapes.integer(), 1, 3, distinct=True),
    "mapping": shapes.mapping_of(shapes.exactly(1), 9, shapes.text(3)),
    "members": FILE,
}


@pytest.mark.security
@pytest.mark.parametrize("value", _ODD.values(), ids=_ODD)
@pytest.mark.parametrize("shape", _STRICT.values(), ids=_STRICT)
def test_odd_values_are_refused_in_printable_words(
    shape: shapes.Shape[object], value: object
) -> None:
    with pytest.raises(shapes.Invalid) as caught:
        shape(value, "x")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("value", ["\0", "a\0b", "\ud800"])
def test_databases_cannot_store_all_strings(value: str) -> None:
    assert shapes.text()(value, "x") == value
    with pytest.raises(shapes.Invalid, match="x: must be Unicode without NUL"):
        shapes.text(storable=True)(value, "x")


_SECRET = "hush-hush"


@pytest.mark.security
@pytest.mark.parametrize(
    "shape",
    [
        shapes.integer(),
        shapes.number(),
        shapes.flag,
        shapes.text(3),
        shapes.text(printable=True),
        shapes.matching("[0-9]+", "digits"),
        shapes.one_of(("a",)),
        shapes.exactly(1),
        shapes.list_of(shapes.flag),
        shapes.mapping_of(shapes.flag),
        BOARD,
    ],
)
def test_no_fault_repeats_the_value(shape: shapes.Shape[object]) -> None:
    with pytest.raises(shapes.Invalid) as caught:
        shape(f"{_SECRET}\n", "x")
    assert _SECRET not in str(caught.value)


def test_names_in_faults_are_short() -> None:
    with pytest.raises(shapes.Invalid) as caught:
        BOARD({"x" * 10_000: 1, "name": "a"}, "x")
    assert len(str(caught.value)) < 200


def test_a_fault_can_be_copied() -> None:
    fault = shapes.Invalid("x", "is missing")
    for other in (copy.copy(fault), pickle.loads(pickle.dumps(fault))):
        assert (str(other), other.where) == ("x: is missing", "x")


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["boards", "labels", "name", "slots", "power_w"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(_ANYTHING)
def test_anything_has_the_shape_or_is_invalid(value: object) -> None:
    for shape in (FILE, BOARD, shapes.number(), shapes.list_of(FILE)):
        try:
            shape(value, "")
        except shapes.Invalid:
            continue
