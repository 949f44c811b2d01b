# SPDX-License-Identifier: Apache-2.0

"""Profiles from manifests."""

import json

import jsonschema
import pytest

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers.opencl import kernels
from fpgapool.drivers.opencl.contents import manifest
from fpgapool.drivers.opencl.contents import profiles
from fpgapool.objects import declaration
from tests.unit.drivers.opencl import packages
from tests.unit.drivers.opencl import sessions


def members(**changes):
    return profiles.members(manifest.parse(packages.manifest(**changes)))


@pytest.mark.parametrize("name", kernels.names())
def test_those_of_the_shipped_kernels_are_those_of_the_accelerators(name):
    found = profiles.members(manifest.parse(kernels.read(name)[0]))
    profile = accelerators.load_profile(name)
    assert found["stateless"] == profile.stateless
    # A kernel may need longer pieces than the software core.
    pieces = found.get("chunk_multiple_bytes", 0)
    assert pieces % profile.chunk_multiple_bytes == 0
    ratio = found.get("return_ratio", profile.return_ratio)
    assert ratio == pytest.approx(profile.return_ratio, abs=1e-6)


@pytest.mark.parametrize("session", sessions.SESSIONS, ids=str)
def test_the_schema_accepts_the_parameters_of_sessions(session):
    manifest_ = manifest.parse(kernels.read(session.name)[0])
    schema = profiles.members(manifest_)["params_schema"]
    declaration.check_params_schema(schema)
    jsonschema.validate(session.params, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**session.params, "novelty": 1}, schema)


def test_each_kind_of_parameter_has_a_schema():
    params = {
        "number": {"type": "ulong", "minimum": 3, "default": 4},
        "gain": {"type": "float", "minimum": -1.5, "maximum": 2},
        "fast": {"type": "flag"},
        "mode": {"type": "choice", "choices": ["a", "b"]},
        "key": {"type": "bytes", "lengths_bytes": [16, 32]},
        "missing": {"type": "uints", "maximum": 31, "max_items": 24},
        "amount": {"type": "uint"},
    }
    schema = members(params=params)["params_schema"]
    assert json.loads(json.dumps(schema)) == schema
    declaration.check_params_schema(schema)
    assert schema["properties"] == {
        "number": {
            "type": "integer",
            "minimum": 3,
            "maximum": 2**63 - 1,
            "default": 4,
        },
        "gain": {"type": "number", "minimum": -1.5, "maximum": 2},
        "fast": {"type": "boolean"},
        "mode": {"type": "string", "enum": ["a", "b"]},
        "key": {"type": "string", "minLength": 32, "maxLength": 64},
        "missing": {
            "type": "array",
            "maxItems": 24,
            "items": {"type": "integer", "minimum": 0, "maximum": 31},
        },
        "amount": {"type": "integer", "minimum": 0, "maximum": 2**32 - 1},
    }
    assert "number" not in schema["required"]


def variant(block_bytes, output_bytes, **more):
    plain = json.loads(packages.manifest())["variants"][0]
    process = {**plain["process"], "output_bytes": output_bytes}
    return {**plain, "block_bytes": block_bytes, "process": process, **more}


@pytest.mark.parametrize(
    ("variants", "expected"),
    [
        ([variant(8, "bytes / 2")], (8, 0.5)),
        ([variant(8, "blocks * 12")], (8, 1.5)),
        ([variant(8, "bytes * first")], (8, 0)),
        ([variant(8, "amount * blocks")], (8, None)),
        ([variant("amount + 1", "bytes")], (None, None)),
        ([variant(8, "bytes"), variant(8, "bytes * 2")], (8, None)),
        ([variant(8, "bytes"), variant(16, "bytes")], (None, None)),
        # More than a profile can say.
        ([variant(1 << 21, "bytes")], (None, None)),
        ([variant(8, "bytes / (bytes - bytes)")], (8, None)),
        ([variant(8, "0 - bytes")], (8, None)),
    ],
)
def test_what_depends_on_parameters_is_left_out(variants, expected):
    found = members(variants=variants)
    shown = found.get("chunk_multiple_bytes"), found.get("return_ratio")
    assert shown == expected


def test_state_makes_it_stateful():
    assert members()["stateless"]
    stateful = variant(8, "bytes", state={"bytes": 8})
    assert not members(variants=[stateful])["stateless"]


@pytest.mark.parametrize("rate", [0, -1, "fast", 1e16, True, [1]])
def test_a_rate_is_a_number(rate):
    with pytest.raises(manifest.InvalidManifest, match="peak_bytes_per_s"):
        members(peak_bytes_per_s=rate)
