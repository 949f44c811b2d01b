# SPDX-License-Identifier: Apache-2.0

"""Declarations: what is taken from them, and what is refused."""

import json
import re

import pytest

from fpgapool.objects import declaration

SMALL = {
    "format_version": 1,
    "name": "mine",
    "core": "ec",
    "peak_bytes_per_s": 8e8,
}


def parse(**changes):
    return declaration.parse(json.dumps({**SMALL, **changes}).encode())


def test_what_is_not_said_has_a_default():
    found = parse()
    assert (found.name, found.core, found.peak_bytes_per_s) == (
        "mine",
        "ec",
        8e8,
    )
    assert found.params == found.params_schema == found.resources == {}
    assert (found.return_ratio, found.stateless) == (1.0, False)
    assert found.chunk_multiple_bytes == 1


def test_the_profile_is_what_was_declared():
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"mode": {"enum": ["encode"], "default": "encode"}},
    }
    profile = parse(
        description="four and two",
        params={"k": 4, "m": 2},
        params_schema=schema,
        return_ratio=1.5,
        stateless=True,
        chunk_multiple_bytes=16,
    ).profile(["small"])
    assert profile.name == "mine"
    assert profile.description == "four and two"
    assert profile.shapes == ("small",)
    assert profile.params_schema == schema
    assert (profile.return_ratio, profile.stateless) == (1.5, True)
    assert (profile.core, profile.chunk_multiple_bytes) == ("ec", 16)


def test_arrays_may_be_declared():
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "arrays": {
            "input": {"dtype": "uint8", "shape": ["n"]},
            "output": {"dtype": "uint8", "per": "any"},
        },
    }
    assert parse(params_schema=schema).params_schema == schema
    declaration.check_params_schema(schema)


def test_fixed_parameters_are_added_and_cannot_be_given():
    found = parse(params={"k": 4})
    assert found.merged({"m": 2}) == {"k": 4, "m": 2}
    with pytest.raises(ValueError, match="'k' is fixed"):
        found.merged({"k": 5})


def test_shapes_that_have_room_come_smallest_first():
    capacities = {
        "large": {"lut": 400, "ff": 800, "bram": 40, "dsp": 40},
        "small": {"lut": 100, "ff": 200, "bram": 10, "dsp": 0},
        "medium": {"lut": 200, "ff": 400, "bram": 20, "dsp": 20},
        "any": {},
    }
    found = parse(resources={"lut": 150, "dsp": 20})
    assert found.shapes(capacities) == ("medium", "large", "any")
    assert parse().shapes(capacities) == ("small", "medium", "large", "any")
    assert parse(resources={"dsp": 41}).shapes(capacities) == ("any",)
    assert not found.fits({"lut": 149})
    assert found.fits({"lut": 150})


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"format_version": 2}, "format_version: must be 1"),
        ({"format_version": True}, "format_version"),
        ({"name": "../aes"}, "name: must be a name"),
        ({"name": "a@b"}, "name: must be a name"),
        ({"name": ""}, "name: must be a name"),
        ({"name": 5}, "name: must be a name"),
        ({"core": "os:system"}, "core: must be a name"),
        ({"peak_bytes_per_s": 0}, "peak_bytes_per_s"),
        ({"peak_bytes_per_s": 1e16}, "peak_bytes_per_s"),
        ({"peak_bytes_per_s": "fast"}, "peak_bytes_per_s"),
        ({"peak_bytes_per_s": True}, "peak_bytes_per_s"),
        ({"return_ratio": -1}, "return_ratio"),
        ({"stateless": 1}, "stateless"),
        ({"chunk_multiple_bytes": 0}, "chunk_multiple_bytes"),
        ({"chunk_multiple_bytes": 1.5}, "chunk_multiple_bytes"),
        ({"description": "two\nlines"}, "description"),
        ({"description": "x" * 1001}, "description"),
        ({"description": "\ud800"}, "not valid Unicode"),
        ({"params": []}, "params: must be an object"),
        ({"params": {"a\0": 1}}, "a NUL character"),
        ({"resources": {"gates": 1}}, "unknown member 'gates'"),
        ({"resources": {"lut": -1}}, "resources.lut"),
        ({"resources": {"lut": 1.5}}, "resources.lut"),
        ({"resources": {"lut": 10**10}}, "resources.lut"),
        ({"sha256": "ab"}, "unknown member 'sha256'"),
        ({"params_schema": {"type": "array"}}, "params_schema.type"),
        (
            {"params_schema": {"type": "object", "$ref": "x"}},
            "ref: keyword not",
        ),
        (
            {"params_schema": {"type": "object", "arrays": {"input": 1}}},
            "params_schema.arrays.output: is missing",
        ),
        (
            {
                "params": {"k": 1},
                "params_schema": {
                    "type": "object",
                    "properties": {"k": {"type": "integer"}},
                },
            },
            "'k' is already fixed in params",
        ),
    ],
)
def test_what_is_wrong_is_named(changes, what):
    with pytest.raises(ValueError, match=re.escape(what)):
        parse(**changes)


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "^(a+)+$"},
        {"patternProperties": {".*": {}}},
        {"$ref": "http://192.0.2.1/schema"},
        {"allOf": [{}]},
        {"type": "text"},
        {"type": []},
        {"enum": []},
        {"required": ["a", "a"]},
        {"properties": {"b": 5}},
        {"items": [1]},
        {"minLength": -1},
        {"minimum": "1"},
        {"uniqueItems": "yes"},
        {"description": 1},
        {"arrays": {}},
    ],
)
def test_schemas_can_only_ask_for_what_is_cheap(schema):
    with pytest.raises(ValueError, match=r"params_schema\.properties\.a"):
        parse(params_schema={"type": "object", "properties": {"a": schema}})


@pytest.mark.parametrize("member", sorted(SMALL))
def test_what_is_missing_is_named(member):
    document = {name: SMALL[name] for name in SMALL if name != member}
    with pytest.raises(ValueError, match=f"{member}: is missing"):
        declaration.parse(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[]", "must be an object"),
        (b"null", "must be an object"),
        (b"[" * 60_000, "deeper than"),
        (b"[" * 14 + b"]" * 14, "deeper than"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "deeper than"),
        (b" " * 65_537, "larger than the limit of 65536"),
        (b"9" * 60_000, "number out of range"),
        (b"9223372036854775808", "number out of range"),
        (b"1e999", "number out of range"),
        (b"-Infinity", "is not a number"),
        (b"NaN", "is not a number"),
        (b'{"a": 1, "a": 2}', "duplicate member"),
        (b'&a [*a, *a]: {"a": *a}', "not JSON"),
    ],
)
def test_bombs_and_noise_are_refused(data, what):
    with pytest.raises(ValueError, match=re.escape(what)) as caught:
        declaration.parse(data)
    assert len(str(caught.value)) < 500
