# SPDX-License-Identifier: Apache-2.0

"""Manifests: what is read from them, and what is refused."""

import copy
import json
import pickle
import random
import re

import pytest

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers.opencl import binding
from fpgapool.drivers.opencl import kernels
from fpgapool.drivers.opencl.contents import manifest
from fpgapool.vocabulary import exceptions

STEP = {
    "kernel": "work",
    "global": ["blocks", 2],
    "local": [16, 1],
    "arguments": [
        "input",
        "output",
        "state",
        "report",
        {"uint": "seed"},
        {"ulong": "offset / width"},
        {"float": "gain"},
        {"buffer": "table"},
        {"buffer": "rows"},
        {"buffer": "key"},
        {"buffer": "places"},
        {"local": "width * 4"},
    ],
}
SOUND = {
    "format_version": 1,
    "name": "work",
    "description": "Works",
    "params": {
        "seed": {"type": "uint", "default": 5},
        "width": {"type": "ulong", "minimum": 1, "maximum": 1000},
        "gain": {"type": "float", "minimum": -1, "maximum": 1.5},
        "turned": {"type": "flag", "default": False},
        "mode": {"type": "choice", "choices": ["slow", "fast"]},
        "key": {"type": "bytes", "lengths_bytes": [16, 32]},
        "places": {
            "type": "uints",
            "maximum": 9,
            "max_items": 3,
            "default": [],
        },
    },
    "variants": [
        {
            "when": {"mode": "fast"},
            "requires": [
                {
                    "value": "width * (places_count + 1)",
                    "maximum": 2000,
                    "message": "'width' is too large for 'places'",
                }
            ],
            "block_bytes": "4 * width",
            "whole_blocks": False,
            "block": "row",
            "buffers": {
                "table": {"hex": "00ff"},
                "keys": {"prepare": "aes-encryption"},
                "rows": {"bytes": "blocks * table_bytes + keys_bytes"},
            },
            "state": {"bytes": "key_bytes + 8", "initial": "key"},
            "faults": {"1": "the row is wrong"},
            "process": {"output_bytes": "bytes / 2", "steps": [STEP]},
            "finish": {
                "output_bytes": 8,
                "steps": [
                    {
                        "kernel": "end:{end_1}",
                        "global": ["1 + first"],
                        "arguments": ["output"],
                    }
                ],
            },
        }
    ],
}
PARAMS = {"width": 100, "gain": 0.5, "mode": "fast", "key": "ab" * 16}


def parse(document):
    return manifest.parse(json.dumps(document).encode())


def changed(path, value):
    """Make a document with another value at a place; ... removes it."""
    document = copy.deepcopy(SOUND)
    inner = document
    *front, last = path
    for member in front:
        inner = inner[member]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return document


def bound(**params):
    return binding.Binding(parse(SOUND), {**PARAMS, **params})


def test_what_is_not_said_has_a_default():
    document = changed(["description"], ...)
    variant = document["variants"][0]
    for member in ("when", "requires", "whole_blocks", "block", "finish"):
        del variant[member]
    found = parse(document)
    assert found.description == ""
    (variant,) = found.variants
    assert (variant.when, variant.requires, variant.finish) == ({}, (), None)
    assert (variant.whole_blocks, variant.block) == (True, "block")


def test_kernels_are_named_without_instances():
    assert parse(SOUND).kernels() == {"work", "end"}


def test_a_session_gets_sizes_contents_and_launches():
    found = bound(places=[1, 7])
    assert found.block_bytes == 400
    assert found.contents["table"] == b"\x00\xff"
    assert found.contents["key"] == b"\xab" * 16
    assert found.contents["places"] == bytes([1, 0, 0, 0, 7, 0, 0, 0])
    assert found.initial_state == b"\xab" * 16 + bytes(8)
    assert found.reports
    keys_bytes = 4 * 256 + 16 * 11
    assert found.scratch_bytes(1200) == {"rows": 6 + keys_bytes}
    assert found.max_output_bytes(1200) == 600
    assert found.max_output_bytes(0) == 8
    (launch,) = found.launches(1210, 4000)
    # Four blocks, the last one incomplete, rounded up to groups of 16.
    assert (launch.step, launch.global_size) == (0, (16, 2))
    assert launch.local_size == (16, 1)
    assert launch.arguments == (
        ("input", None),
        ("output", None),
        ("state", None),
        ("report", None),
        ("uint", 5),
        ("ulong", 40),
        ("float", 0.5),
        ("buffer", "table"),
        ("buffer", "rows"),
        ("buffer", "key"),
        ("buffer", "places"),
        ("local", 400),
    )
    (launch,) = found.launches(0, 0)
    assert (launch.global_size, launch.local_size) == ((2,), None)
    (launch,) = found.launches(0, 1210)
    assert launch.global_size == (1,)


@pytest.mark.parametrize(
    ("params", "what"),
    [
        ({"width": 0}, "'width' must be an integer from 1 to 1000"),
        ({"width": True}, "'width'"),
        ({"seed": -1}, "'seed'"),
        ({"seed": 2**32}, "'seed'"),
        ({"gain": 1.6}, "'gain' must be a number from -1 to 1.5"),
        ({"gain": "hush"}, "'gain'"),
        ({"gain": float("nan")}, "'gain'"),
        ({"turned": 1}, "'turned'"),
        ({"mode": "slow"}, "no kernel for this combination"),
        ({"mode": "hush"}, "'mode' must be one of: slow, fast"),
        ({"key": "hush"}, "'key'"),
        ({"key": "ab" * 17}, "'key' must be 16 or 32 bytes"),
        ({"places": [1, 2, 3, 4]}, "'places' must have at most 3"),
        ({"places": [10]}, "'places'"),
        ({"places": [True]}, "'places'"),
        ({"places": 1}, "'places'"),
        ({"width": 1000, "places": [1, 2]}, "too large for 'places'"),
        ({"colour": "red"}, "unknown parameter 'colour'"),
    ],
)
def test_parameters_that_do_not_suit(params, what):
    with pytest.raises(accelerators.InvalidParams) as caught:
        bound(**params)
    assert caught.value.code == "INVALID_PARAMS"
    assert what in caught.value.message
    assert "hush" not in caught.value.message


def test_a_parameter_without_a_default_must_be_given():
    given = {name: PARAMS[name] for name in PARAMS if name != "gain"}
    with pytest.raises(accelerators.InvalidParams, match="'gain' is missing"):
        binding.Binding(parse(SOUND), given)


FIRST = ("variants", 0)
ARGUMENTS = (*FIRST, "process", "steps", 0, "arguments")
WRONG = [
    (["format_version"], 2, "format_version: must be 1"),
    (["format_version"], True, "format_version: must be 1"),
    (["format_version"], ..., "manifest.format_version: is missing"),
    (["name"], "../work", "name: must be a name"),
    (["name"], 5, "name: must be a name"),
    (["description"], "two\nlines", "description: must be one printable"),
    (["code"], "import os", "unknown member 'code'"),
    (["params"], [], "params: must be an object"),
    (["params"], {"A": {}}, "params.A: must be up to 32"),
    (
        ["params"],
        {"min": {"type": "flag"}},
        "params.min: must not be the name of a function",
    ),
    (["params"], {"bytes": {"type": "flag"}}, "'bytes' is ambiguous"),
    (
        ["params"],
        {f"p{i}": {"type": "flag"} for i in range(33)},
        "must have at most 32",
    ),
    (["params", "key_bytes"], {"type": "uint"}, "'key_bytes' is ambig"),
    (["params", "seed", "type"], "int", "params.seed.type: must be one"),
    (["params", "seed", "type"], ["uint"], "params.seed.type"),
    (["params", "seed", "choices"], [], "unknown member 'choices'"),
    (["params", "seed", "minimum"], -1, "params.seed.minimum"),
    (["params", "seed", "minimum"], 0.5, "params.seed.minimum"),
    (["params", "seed", "minimum"], 6, "params.seed: 'default' must"),
    (["params", "seed", "maximum"], 2**32, "params.seed.maximum"),
    (["params", "width", "minimum"], 1001, "must not exceed the maximum"),
    (["params", "gain", "maximum"], 1e39, "params.gain.maximum"),
    (["params", "gain", "maximum"], "1", "params.gain.maximum"),
    (["params", "mode", "choices"], [], "params.mode.choices"),
    (["params", "mode", "choices"], ["a", "a"], "params.mode.choices"),
    (["params", "mode", "choices"], [1], "params.mode.choices"),
    (["params", "key", "lengths_bytes"], [0], "params.key.lengths_bytes"),
    (["params", "key", "lengths_bytes"], [4097], "params.key.lengths_bytes"),
    (["params", "places", "max_items"], 257, "params.places.max_items"),
    (["params", "places", "default"], [10], "params.places: 'default'"),
    (["variants"], [], "variants: must have at least 1"),
    (["variants"], [{}] * 9, "variants: must have at most 8"),
    ([*FIRST, "process"], ..., "variants[0].process: is missing"),
    ([*FIRST, "when"], {"colour": 1}, "unknown member 'colour'"),
    ([*FIRST, "when"], {"mode": "odd"}, "variants[0].when"),
    ([*FIRST, "whole_blocks"], 1, "whole_blocks: must be true or false"),
    ([*FIRST, "block"], "", "block: must not be empty"),
    ([*FIRST, "block_bytes"], 1.5, "must be an integer or an expr"),
    ([*FIRST, "block_bytes"], True, "must be an integer or an expr"),
    ([*FIRST, "block_bytes"], "4 *", "unexpected 'the end'"),
    ([*FIRST, "block_bytes"], "4 4", "unexpected '4'"),
    ([*FIRST, "block_bytes"], "(4", "unexpected 'the end'"),
    ([*FIRST, "block_bytes"], "max(4)", "unexpected ')'"),
    ([*FIRST, "block_bytes"], "4 ** 4", "unexpected '*'"),
    ([*FIRST, "block_bytes"], "-4", "unexpected '-'"),
    ([*FIRST, "block_bytes"], "", "unexpected 'the end'"),
    ([*FIRST, "block_bytes"], "width.real", "unexpected '.' at position 5"),
    ([*FIRST, "block_bytes"], "__import__", "unexpected '_' at position 0"),
    (
        [*FIRST, "block_bytes"],
        "(" * 17 + "1" + ")" * 17,
        "nested at most 16",
    ),
    ([*FIRST, "block_bytes"], "1+" * 200, "at most 200 characters"),
    ([*FIRST, "block_bytes"], "blocks", "unknown name 'blocks'"),
    ([*FIRST, "block_bytes"], "gain", "unknown name 'gain'"),
    ([*FIRST, "requires", 0, "maximum"], "1", "maximum: must be an integer"),
    ([*FIRST, "requires", 0, "value"], "keys_bytes", "depend on a buffer"),
    ([*FIRST, "buffers"], {"key": {"hex": "00"}}, "'key' is ambiguous"),
    ([*FIRST, "buffers", "table"], {}, "exactly one of hex, prepare"),
    (
        [*FIRST, "buffers", "table"],
        {"hex": "00", "bytes": 1},
        "exactly one of hex, prepare",
    ),
    ([*FIRST, "buffers", "table", "hex"], "0", "buffers.table.hex"),
    ([*FIRST, "buffers", "table", "hex"], "0g", "buffers.table.hex"),
    ([*FIRST, "buffers", "table", "hex"], "00" * 4097, "buffers.table.hex"),
    ([*FIRST, "buffers", "keys", "prepare"], "os", "must be one of: aes-"),
    ([*FIRST, "buffers", "keys", "prepare"], {}, "must be one of: aes-"),
    (
        [*FIRST, "buffers", "keys", "prepare"],
        "ec-encoding",
        "requires parameter 'k' of type uint",
    ),
    ([*FIRST, "buffers", "rows", "bytes"], "offset", "unknown name 'off"),
    ([*FIRST, "buffers", "rows", "bytes"], "rows_bytes", "unknown name"),
    (
        [*FIRST, "buffers", "table"],
        {"hex": "00", "argument": 1},
        "argument is allowed only with bytes",
    ),
    *(
        (
            [*FIRST, "buffers", "rows"],
            {"bytes": 8, "argument": number},
            "rows.argument: must be an integer from 1 to 255",
        )
        for number in (0, 256, "1", True, 1.0, [])
    ),
    (
        [*FIRST, "buffers", "rows"],
        {"bytes": "blocks", "argument": 1},
        "unknown name 'blocks'",
    ),
    (
        [*FIRST, "buffers"],
        {name: {"bytes": 8, "argument": 1} for name in ("rows", "more")},
        "more.argument: another buffer already has this argument",
    ),
    ([*FIRST, "state"], ..., "the variant has no state"),
    ([*FIRST, "state", "initial"], "rows", "state.initial: must be"),
    ([*FIRST, "state", "initial"], "seed", "state.initial: must be"),
    ([*FIRST, "state", "initial"], [], "state.initial: must be"),
    ([*FIRST, "faults"], {"0": "x"}, "faults.0: must be a number from 1"),
    ([*FIRST, "faults"], {"1": 5}, "faults.1: must be a string"),
    ([*FIRST, "process", "steps"], [], "steps: must have at least 1"),
    ([*FIRST, "process", "output_bytes"], "size", "unknown name 'size'"),
    ([*FIRST, "process", "steps", 0, "kernel"], "a b", "kernel name"),
    ([*FIRST, "process", "steps", 0, "kernel"], "a:{b", "kernel name"),
    ([*FIRST, "process", "steps", 0, "global"], [], "must have at least 1"),
    ([*FIRST, "process", "steps", 0, "local"], [1], "as many dimensions"),
    ([*FIRST, "process", "steps", 0, "local"], [0, 1], "local[0]: must be"),
    ([*FIRST, "process", "steps", 0, "local"], [64, 64], "at most 1024"),
    (ARGUMENTS, [], "arguments: must have at least 1"),
    (ARGUMENTS, ["size"], "arguments[0]: must be one of input, output"),
    (ARGUMENTS, [{"uint": 1, "ulong": 1}], "arguments[0]: must be one of"),
    (ARGUMENTS, [{"int": 1}], "unknown member 'int'"),
    (ARGUMENTS, [{"uint": "size"}], "arguments[0].uint: unknown name"),
    (ARGUMENTS, [{"float": "seed"}], "must be a parameter of type float"),
    (ARGUMENTS, [{"float": 1.5}], "must be a parameter of type float"),
    (ARGUMENTS, [{"buffer": "seed"}], "must be a buffer, or a parameter"),
    (ARGUMENTS, [{"buffer": ["table"]}], "must be a buffer"),
]


@pytest.mark.parametrize(
    ("path", "value", "what"), WRONG, ids=[each[2] for each in WRONG]
)
def test_what_is_wrong_is_named(path, value, what):
    with pytest.raises(ValueError, match=re.escape(what)) as caught:
        parse(changed(path, value))
    assert isinstance(caught.value, manifest.InvalidManifest)
    assert caught.value.code == "INVALID_MANIFEST"
    assert len(caught.value.message) < 1000


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[]", "manifest: must be an object"),
        (b"[" * 60_000, "deeper than"),
        (b" " * 65_537, "larger than the limit of 65536"),
        (b"9" * 60_000, "number out of range"),
        (b"1e999", "number out of range"),
        (b"NaN", "is not a number"),
        (b'{"a": 1, "a": 2}', "duplicate member"),
    ],
)
def test_bombs_and_noise_are_refused(data, what):
    with pytest.raises(manifest.InvalidManifest, match=what):
        manifest.parse(data)


@pytest.mark.parametrize(
    ("path", "value", "what"),
    [
        (
            [*FIRST, "block_bytes"],
            0,
            "block_bytes: is outside the range from 1",
        ),
        ([*FIRST, "block_bytes"], "1 - width", "block_bytes: is outside"),
        ([*FIRST, "block_bytes"], 2**26 + 1, "block_bytes: is outside"),
        ([*FIRST, "block_bytes"], "1 / turned", "block_bytes: divides by 0"),
        ([*FIRST, "block_bytes"], "1 % turned", "block_bytes: divides by 0"),
        (
            [*FIRST, "block_bytes"],
            "*".join(["4294967295"] * 3),
            "block_bytes: a value exceeds",
        ),
        ([*FIRST, "state", "bytes"], 15, "must not be longer than the state"),
        ([*FIRST, "state", "bytes"], 2**20 + 1, "state.bytes: is outside"),
        ([*FIRST, "requires", 0, "value"], "1 / turned", "divides by 0"),
        ([*FIRST, "process", "output_bytes"], 2**32 + 1, "output_bytes: is"),
        ([*FIRST, "buffers", "rows", "bytes"], "0 - 1", "buffers.rows: is"),
        (
            [*ARGUMENTS, 4, "uint"],
            2**32,
            "uint: is outside the range from",
        ),
        (
            [*ARGUMENTS, 4, "uint"],
            "0 - 1",
            "uint: is outside the range from",
        ),
        (
            [*ARGUMENTS, 11, "local"],
            0,
            "local: is outside the range from 1",
        ),
        (
            [*FIRST, "process", "steps", 0, "global"],
            [2**30, 2**30],
            "global: more than",
        ),
    ],
)
def test_impossible_sizes_are_refused(path, value, what):
    found = parse(changed(path, value))
    with pytest.raises(manifest.InvalidManifest, match=re.escape(what)):
        use(found, PARAMS)


def use(found, params):
    """Do all that a driver does with a manifest but run it."""
    made = binding.Binding(found, params)
    for input_bytes in (made.block_bytes, 1 << 20, 0):
        made.scratch_bytes(input_bytes)
        made.max_output_bytes(input_bytes)
        for offset_bytes in (0, 1 << 40):
            made.output_bytes(input_bytes, offset_bytes)
            list(made.launches(input_bytes, offset_bytes))


@pytest.mark.parametrize("name", kernels.names())
def test_manifests_of_the_built_in_kernels(name):
    data, source = kernels.read(name)
    found = manifest.parse(data)
    profile = accelerators.load_profile(name)
    assert (found.name, found.description[:3]) == (
        name,
        profile.description[:3],
    )
    properties = profile.params_schema.get("properties", {})
    assert set(found.params) == set(properties)
    for param, each in found.params.items():
        default = properties[param].get("default", each.default)
        assert each.default is None or each.default == default
    text = source.decode()
    for kernel in found.kernels():
        assert f"kernel void {kernel}(" in text


def test_there_are_no_kernels_of_other_names():
    with pytest.raises(KeyError):
        kernels.read("../manifest")


def places(value, path=()):
    """Yield the places of all values in a document."""
    yield path
    inner = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for member, item in inner:
        yield from places(item, (*path, member))


JUNK = [
    *(None, True, False, 0, 1, -1, 2**31, 2**32, 2**63 - 1, 2**63, 10**300),
    *(0.5, 1e308, -0.0, "", "\0", "\ud800", "x" * 300, "input", "output"),
    *("state", "blocks", "1 / 0", "offset - bytes", "max(width, blocks)"),
    *("(" * 50, "4294967295 * 4294967295 * 4294967295", [], {}, [[]], [0]),
    *({"hex": "00"}, {"bytes": "blocks"}, {"prepare": "fft-plan"}),
    {"bytes": "width", "argument": 1},
    *({"uint": "bytes"}, {"buffer": "key"}, {"type": "uint"}),
]


#: Where sizes and numbers are; many are read, and some cannot be used.
SIZES = [
    *(0, 1, 7, 2**20, 2**33, 2**41, "blocks", "bytes", "bytes * 3", "offset"),
    *("bytes - 64", "4294967295 * blocks", "1 / first", "7 % first"),
    *("first - 1", "bytes * bytes * bytes * bytes * bytes", "blocks / 100"),
]
SIZED = {"block_bytes", "output_bytes", "bytes", "uint", "ulong", "value"}


def resized(chooser, sound):
    """Make a manifest with another size or number."""
    document = copy.deepcopy(sound)
    paths = [
        path
        for path in places(document)
        if path and (path[-1] in SIZED or "global" in path[-2:-1])
    ]
    *front, last = chooser.choice(paths)
    inner = document
    for member in front:
        inner = inner[member]
    inner[last] = chooser.choice(SIZES)
    return json.dumps(document).encode()


def spoilt(chooser, sound):
    """Make a manifest of which some values are missing, moved or wrong."""
    if chooser.random() < 0.5:
        return resized(chooser, sound)
    document = copy.deepcopy(sound)
    for _ in range(chooser.randint(1, 4)):
        paths = [path for path in places(document) if path]
        if not paths:
            break
        *front, last = chooser.choice(paths)
        inner = document
        for member in front:
            inner = inner[member]
        match chooser.randrange(5):
            case 0:
                del inner[last]
            case 1 | 2:
                inner[last] = copy.deepcopy(chooser.choice(JUNK))
            case 3:
                other = document
                for member in chooser.choice(paths):
                    other = other[member]
                inner[last] = copy.deepcopy(other)
            case 4 if isinstance(inner, dict):
                name = chooser.choice([*inner, "extra", "bytes", "type"])
                inner[name] = copy.deepcopy(inner[last])
            case 4:
                inner.extend(copy.deepcopy(inner) * chooser.randrange(5))
    data = bytearray(json.dumps(document).encode())
    if chooser.random() < 0.2:
        for _ in range(chooser.randint(1, 3)):
            data[chooser.randrange(len(data))] = chooser.randrange(256)
    if chooser.random() < 0.05:
        del data[chooser.randrange(len(data)) :]
    return bytes(data)


#: With which built-in kernels' manifests can be used.
SESSIONS = {
    "aes": {"key": "00" * 16, "iv": "00" * 16},
    "dtw": {"length_samples": 10},
    "ec": {"mode": "reconstruct", "missing": [1]},
    "fft": {"frame_samples": 100},
    "work": PARAMS,
}


@pytest.mark.security
def test_fuzz_a_manifest_is_refused_or_used():
    chooser = random.Random(23)
    sound = {
        name: SOUND if name == "work" else json.loads(kernels.read(name)[0])
        for name in SESSIONS
    }
    longest = 0
    counts = {"refused": 0, "unused": 0, "used": 0}
    for _ in range(1000):
        name = chooser.choice(sorted(SESSIONS))
        data = spoilt(chooser, sound[name])
        try:
            found = manifest.parse(data)
        except manifest.InvalidManifest as error:
            longest = max(longest, len(str(error)))
            counts["refused"] += 1
            continue
        try:
            use(found, SESSIONS[name])
        except (manifest.InvalidManifest, accelerators.InvalidParams):
            counts["unused"] += 1
        else:
            counts["used"] += 1
    assert longest < 2000
    assert min(counts.values()) > 50, counts


def test_errors_can_be_sent_to_another_process():
    error = manifest.InvalidManifest("name: is wrong")
    assert isinstance(error, exceptions.CodedError)
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.message) == (error.code, error.message)
