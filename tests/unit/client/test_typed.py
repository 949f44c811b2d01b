# SPDX-License-Identifier: Apache-2.0

"""Parameters as people type them: what the schema makes of them."""

import json
import sys

import pytest

from fpgapool.client import checks
from fpgapool.client import errors
from fpgapool.client import typed

INTEGER = {"type": "integer", "minimum": 1, "maximum": 9}


def converted(text: str, schema: object) -> object:
    values = {"p": typed.Typed(text)}
    checks.params_schema(values, {"properties": {"p": schema}})
    # What is sent has plain types only.
    assert json.loads(checks.encoded(values)) == values
    assert not isinstance(values["p"], typed.Typed)
    return values["p"]


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("4", INTEGER, 4),
        ("4", {"enum": [2, 4, 8]}, 4),
        ("4", {"enum": ["4", 4]}, "4"),
        ("fast", {"enum": ["fast", 4]}, "fast"),
        ("4", {"const": 4}, 4),
        ("4", {"type": "string"}, "4"),
        ("4", {}, "4"),
        ("4", {"type": "number"}, 4),
        ("-0.5", {"type": "number"}, -0.5),
        ("1e9", {"type": "number"}, 1e9),
        ("true", {"type": "boolean"}, True),
        ("False", {"type": "boolean"}, False),
        ("true", {"type": "string"}, "true"),
        ("null", {"type": "null"}, None),
        ("None", {"type": ["string", "null"]}, "None"),
        ("null", {"type": ["integer", "null"]}, None),
        ("7", {"type": ["integer", "null"]}, 7),
        ("7", {"oneOf": [{"type": "boolean"}, INTEGER]}, 7),
        ("true", {"anyOf": [{"type": "boolean"}, INTEGER]}, True),
        ("7", {"allOf": [INTEGER, {"multipleOf": 7}]}, 7),
        ("[0, 3]", {"type": "array", "items": {"type": "integer"}}, [0, 3]),
        ("0,3", {"type": "array", "items": {"type": "integer"}}, [0, 3]),
        ("3", {"type": "array", "items": {"type": "integer"}}, [3]),
        ("a,3", {"type": "array", "items": {"type": "string"}}, ["a", "3"]),
        ('{"a": 1}', {"type": "object"}, {"a": 1}),
        ('{"a": 1}', {"type": "string"}, '{"a": 1}'),
    ],
)
def test_the_schema_decides(text: str, schema: object, value: object) -> None:
    found = converted(text, schema)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "schema", "reason"),
    [
        ("5", {"enum": [2, 4, 8]}, "must be one of 2, 4, 8"),
        ("four", INTEGER, "must be an integer"),
        ("4.5", INTEGER, "must be an integer"),
        ("0", INTEGER, "must be at least 1"),
        ("10", INTEGER, "must be at most 9"),
        ("yes", {"type": "boolean"}, "must be true or false"),
        ("x", {"type": "number"}, "must be a number"),
        ("1e999", {"type": "number"}, "must be a number"),
        ("NaN", {"type": "number"}, "must be a number"),
        ("9" * 5000, INTEGER, "must be an integer"),
        ("[" * 5000, INTEGER, "must be an integer"),
        ("x", {"type": "null"}, "must be null"),
        ("x", {"type": ["integer", "null"]}, "must be an integer or null"),
        ("{", {"type": "object"}, "must be an object"),
        (
            "12",
            {"type": "string", "pattern": "^.{32}$", "description": "a key"},
            "must be: a key",
        ),
    ],
)
def test_what_does_not_fit(text: str, schema: object, reason: str) -> None:
    with pytest.raises(errors.InvalidParams) as caught:
        converted(text, schema)
    assert caught.value.message.startswith(f"params.p: {reason}")


def test_only_what_is_typed_is_converted() -> None:
    with pytest.raises(errors.InvalidParams, match="must be an integer"):
        checks.params_schema({"p": "4"}, {"properties": {"p": INTEGER}})


def test_declarations_in_alternatives() -> None:
    schema = {
        "properties": {"a": {"type": "integer"}},
        "oneOf": [
            {"properties": {"b": {"type": "integer"}}, "required": ["b"]},
            {"properties": {"b": {"type": "boolean"}}, "required": ["b"]},
        ],
    }
    for text, value in ("3", 3), ("true", True):
        values = {"a": typed.Typed("1"), "b": typed.Typed(text)}
        checks.params_schema(values, schema)
        assert values == {"a": 1, "b": value}


def test_unknown_names_are_refused_as_such() -> None:
    with pytest.raises(errors.InvalidParams, match="known names: p"):
        checks.params_schema(
            {"q": typed.Typed("4")},
            {"properties": {"p": INTEGER}, "additionalProperties": False},
        )


def test_a_refusal_changes_nothing() -> None:
    """Another version of the accelerator may accept the text."""
    values = {"p": typed.Typed("4"), "q": typed.Typed("x")}
    schema = {"properties": {"p": INTEGER, "q": INTEGER}}
    with pytest.raises(errors.InvalidParams):
        checks.params_schema(values, schema)
    assert type(values["p"]) is typed.Typed


def test_usual_parameters_need_no_library(monkeypatch) -> None:
    """Importing jsonschema takes longer than a short run."""
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    assert converted("4", INTEGER) == 4
    assert converted("encrypt", {"enum": ["encrypt", "decrypt"]}) == "encrypt"
    assert converted("true", {"type": "boolean"}) is True
