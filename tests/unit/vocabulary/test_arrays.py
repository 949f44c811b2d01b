# SPDX-License-Identifier: Apache-2.0

"""What an accelerator says of its arrays."""

import typing

import pytest

from fpgapool.vocabulary import arrays

PROPERTIES = {
    "samples": {"type": "integer"},
    "classes": {"type": "integer", "default": 3},
    "dtype": {"enum": ["float32", "float64"], "default": "float32"},
    "label": {"type": "string"},
}
FRAME = {"dtype": "complex64", "shape": ["samples"]}


def _form(document: object) -> arrays.Form:
    return arrays.Form({"properties": PROPERTIES, "arrays": document})


def _one(
    *, shape: list[typing.Any] | None = None, **members: object
) -> arrays.Form:
    output = {"dtype": "uint8", **members}
    if shape is not None:
        output["shape"] = shape
    return _form({"input": FRAME, "output": output})


def test_items_have_the_lengths_of_parameters() -> None:
    found = _form({"input": FRAME, "output": FRAME}).arrays({"samples": 8})
    items = arrays.Items("complex64", (8,))
    assert found == arrays.Arrays(items, items, 1)


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (7, 7),
        ("7", 7),
        ("samples", 10),
        ("samples + 1", 11),
        ("classes*samples+classes + 1", 34),
        ("2 * 3 * samples", 60),
    ],
)
def test_lengths(length: int | str, expected: int) -> None:
    found = _one(shape=[length]).arrays({"samples": 10})
    assert found.output.shape == (expected,)
    found = _one(per=length).arrays({"samples": 10})
    assert found.per == expected


def test_numbers_that_are_not_related() -> None:
    assert _one(per="any").arrays({"samples": 1}).per is None


def test_the_type_may_be_a_parameter() -> None:
    form = _form({"input": {"dtype": "dtype"}, "output": {"dtype": "uint8"}})
    assert form.arrays({}).input == arrays.Items("float32", ())
    assert form.arrays({"dtype": "float64"}).input.dtype == "float64"
    with pytest.raises(ValueError, match="'dtype' is not one of the types"):
        form.arrays({"dtype": "text"})


def test_what_an_array_determines() -> None:
    form = _form(
        {
            "input": {
                "dtype": "dtype",
                "shape": [2, "samples", "classes + 1"],
            },
            "output": {"dtype": "dtype"},
        }
    )
    assert form.input_shape == (2, "samples", "classes + 1")
    assert form.inferred("float64", (5, 2, 6, 4)) == {
        "samples": 6,
        "dtype": "float64",
    }
    anything = arrays.Form(
        {
            "properties": {"length": True, "dtype": True},
            "arrays": {
                "input": {"dtype": "dtype", "shape": ["length"]},
                "output": {"dtype": "dtype"},
            },
        }
    )
    assert anything.inferred("int8", (3,)) == {"length": 3, "dtype": "int8"}
    with pytest.raises(ValueError, match="'dtype' is missing"):
        anything.arrays({"length": 3})
    # A type that the accelerator does not have, and too few dimensions.
    assert form.inferred("int8", (6, 4)) == {}


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({}, "'samples' is missing"),
        ({"samples": "8"}, "'samples' must be an integer from 0"),
        ({"samples": True}, "'samples' must be an integer from 0"),
        ({"samples": -1}, "'samples' must be an integer from 0"),
        ({"samples": 8.0}, "'samples' must be an integer from 0"),
        ({"samples": 1 << 50}, "'samples' must be an integer from 0"),
        ({"samples": 1 << 40}, r"'samples \* 2' is larger than"),
    ],
)
def test_parameters_that_are_no_lengths(
    params: dict[str, object], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        _one(shape=["samples * 2"]).arrays(params)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ([], "arrays: must be an object"),
        ({"input": FRAME}, r"arrays\.output: is missing"),
        ({"output": FRAME}, r"arrays\.input: is missing"),
        (
            {"input": FRAME, "output": FRAME, "x": {}},
            "arrays: unknown member 'x'",
        ),
        (
            {"input": {**FRAME, "per": 2}, "output": FRAME},
            r"arrays\.input: unknown member 'per'",
        ),
        ({"input": 1, "output": FRAME}, r"arrays\.input: must be an object"),
        ({"input": {}, "output": FRAME}, r"arrays\.input\.dtype: must be"),
        (
            {"input": {"dtype": "float"}, "output": FRAME},
            r"arrays\.input\.dtype: must be",
        ),
        (
            {"input": {"dtype": ["uint8"]}, "output": FRAME},
            r"arrays\.input\.dtype: must be",
        ),
        (
            {"input": {"dtype": "uint8", "shape": 3}, "output": FRAME},
            r"arrays\.input\.shape: must be a list",
        ),
        (
            {"input": {"dtype": "uint8", "shape": [1] * 17}, "output": FRAME},
            r"arrays\.input\.shape: must have at most 16",
        ),
    ],
)
def test_wrong_documents(document: object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        _form(document)


@pytest.mark.parametrize(
    "length",
    [
        *(0, -1, 1.5, True, None, [], 1 << 41),
        *("", "+", "samples +", "samples - 1", "others", "label.x"),
        *(
            "samples +" * 60 + "1",
            "samples ** 2",
            "(samples)",
            "9" * 20,
            "__import__('os')",
        ),
    ],
)
def test_wrong_lengths(length: object) -> None:
    for members in ({"shape": [length]}, {"per": length}):
        with pytest.raises(ValueError, match="must be a positive integer"):
            _one(**members)


def test_schemas_without_arrays() -> None:
    with pytest.raises(ValueError, match="arrays is missing"):
        arrays.Form({"properties": {}})
    with pytest.raises(ValueError, match="properties: must be an object"):
        arrays.Form({"properties": [], "arrays": {}})
