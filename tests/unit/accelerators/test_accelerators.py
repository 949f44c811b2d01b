# SPDX-License-Identifier: Apache-2.0

"""Profiles and software cores."""

import importlib.metadata
import itertools
import json
import math

import jsonschema
import numpy
import pytest
from cryptography.hazmat.primitives import ciphers
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.ciphers import modes
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.accelerators import base
from fpgapool.vocabulary import arrays
from tests.unit.accelerators import runs

PROFILE = {
    "name": "copy",
    "description": "Copies",
    "peak_bytes_per_s": 1e9,
    "return_ratio": 1,
    "stateless": True,
    "shapes": ["small"],
    "params_schema": {},
    "core": "copy",
    "chunk_multiple_bytes": 1,
}
KEY = "00" * 16
IV = "ff" * 16


def test_every_profile_loads_with_its_core():
    profiles = base.load_profiles()
    assert set(profiles) == set(
        "aes aes-cbc align copy dtw ec fft gzip km lr sha sobel sw".split()
    )
    for name, profile in profiles.items():
        assert profile.name == name
        assert issubclass(base.load_core(profile.core), base.Core)
        schema = profile.params_schema
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["additionalProperties"] is False


def test_after_the_warm_up_no_package_is_scanned_for_a_known_core(
    monkeypatch,
):
    base._installed_cores.cache_clear()
    base.load_core.cache_clear()
    base.warm_up()
    monkeypatch.setattr(importlib.metadata, "entry_points", None)
    assert issubclass(base.load_core("copy"), base.Core)


def test_a_core_that_is_installed_after_the_warm_up_is_found(monkeypatch):
    base.warm_up()
    (copy,) = [
        one
        for one in importlib.metadata.entry_points(group=base.CORE_NAMESPACE)
        if one.name == "copy"
    ]
    late = importlib.metadata.EntryPoint("late", copy.value, copy.group)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: [late])
    assert base.load_core("late") is base.load_core(copy.value)
    base._installed_cores.cache_clear()


#: Parameters that suit, and changes of single ones that do not.
CASES = {
    "aes": (
        {"key": KEY, "iv": IV},
        {"key": [KEY[2:], 7, "zz" * 16], "iv": [IV[1:]], "mode": ["ecb"]},
    ),
    "aes-cbc": (
        {"key": KEY, "iv": IV, "direction": "decrypt"},
        {"key": [KEY[2:], 7], "iv": [IV + "00"], "direction": ["back", 1]},
    ),
    "align": (
        {
            "query_symbols": 10,
            "target_symbols": 20,
            "matrix": "dna",
            "match": 127,
            "mismatch": -128,
            "gap_open": 0,
            "gap_extend": 1000,
        },
        {
            "query_symbols": [3, 65537, True, "10", 4.5, None],
            "target_symbols": [3, 65537, True, "10", 4.5, None],
            "matrix": ["pam250", 62, None],
            "match": [0, 128, True, "1", None],
            "mismatch": [1, -129, "1", None],
            "gap_open": [-1, 1001, 0.5, None],
            "gap_extend": [0, 1001, 0.5, None],
        },
    ),
    "copy": ({}, {"key": ["hush"]}),
    "dtw": (
        {"length_samples": 10, "dtype": "float64", "window_samples": 0},
        {
            "length_samples": [0, 65537, True, "10", 1.5, None],
            "dtype": ["float16", 32, None],
            "window_samples": [-1, 65537, None, "1"],
        },
    ),
    "ec": (
        {
            "mode": "reconstruct",
            "k": 8,
            "m": 24,
            "stripe_bytes": 1 << 20,
            "missing": [0, 31],
        },
        {
            "mode": ["decode", None],
            "k": [0, 32, True, "4"],
            "m": [0, 25, 2.5],
            "stripe_bytes": [255, (1 << 20) + 1, None],
            "missing": [[32], [-1], [1, 1], ["0"], [True], 3, "012", None],
        },
    ),
    "fft": (
        {"frame_samples": 131072, "inverse": True, "norm": "ortho"},
        {
            "frame_samples": [0, 131073, True, "64", None],
            "inverse": [0, "false", None],
            "norm": ["1/N", None, ["ortho"]],
        },
    ),
    "gzip": ({"level": 1}, {"level": [0, 10, True, "6", 2.5, None]}),
    "km": (
        {"features": 4, "centres": 3, "block_records": 100},
        {
            "features": [0, 65537, True, "4", 1.5, None],
            "centres": [0, 1025, True, "3", 1.5, None],
            "block_records": [0, 65537, True, "9", 1.5, None],
        },
    ),
    "lr": (
        {"features": 4, "labels": 3, "block_records": 100},
        {
            "features": [0, 65537, True, "4", 1.5, None],
            "labels": [0, 1025, True, "3", 1.5, None],
            "block_records": [0, 65537, True, "9", 1.5, None],
        },
    ),
    "sha": ({"algorithm": "sha1"}, {"algorithm": ["md5", "SHA1", None]}),
    "sobel": ({}, {"width_pixels": [640]}),
    "sw": (
        {"query_symbols": 10, "target_symbols": 20},
        {
            "query_symbols": [0, 65537, True, "10", 1.5, None],
            "target_symbols": [0, 65537, True, "10", 1.5, None],
        },
    ),
}

#: Arguments with parameters that are required only.
ARGUMENTS_BYTES = {"km": [4 * 3 * 4], "lr": [4 * 4]}


def test_every_accelerator_has_a_case():
    assert set(CASES) == set(base.profile_names())


@pytest.mark.parametrize("name", CASES)
def test_schema_and_core_agree(name):
    profile = base.load_profile(name)
    core = base.load_core(profile.core)
    good, wrong = CASES[name]
    jsonschema.validate(good, profile.params_schema)
    core(good)
    bad = [
        {**good, member: value} for member in wrong for value in wrong[member]
    ]
    for member in profile.params_schema.get("required", ()):
        bad.append({name: good[name] for name in good if name != member})
    bad.append({**good, "colour": "red"})
    for params in bad:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(params, profile.params_schema)
        with pytest.raises(base.InvalidParams):
            core(params)


@pytest.mark.parametrize("name", CASES)
def test_defaults_of_the_schema_are_those_of_the_core(name):
    profile = base.load_profile(name)
    core = base.load_core(profile.core)
    properties = profile.params_schema.get("properties", {})
    required = profile.params_schema.get("required", ())
    params = {member: CASES[name][0][member] for member in required}
    defaults = {
        member: each["default"]
        for member, each in properties.items()
        if "default" in each
    }
    # A whole number of blocks, frames, pairs and stripes.
    unit_bytes = runs.multiple_bytes(name, core(params))
    size_bytes = max(3, (1 << 16) // unit_bytes) * unit_bytes
    # Labels of records are small whole numbers.
    data = bytes(256) if name == "lr" else bytes(range(256))
    data = (data * (size_bytes // len(data) + 1))[:size_bytes]
    outputs = set()
    for given_params in (params, {**params, **defaults}):
        made = core(given_params)
        for argument_bytes in ARGUMENTS_BYTES.get(name, ()):
            made.set_argument(1, memoryview(bytes(argument_bytes)))
        outputs.add(runs.run(made, data))
    assert len(outputs) == 1


@pytest.mark.parametrize("name", CASES)
def test_known_answers_are_the_stated_arrays(name):
    profile = base.load_profile(name)
    core = base.load_core(profile.core)
    form = arrays.Form(profile.params_schema)
    for answer in core.known_answers:
        stated = form.arrays(answer.params)
        rows, rest = divmod(len(answer.data), _item_bytes(stated.input))
        assert not rest
        results, rest = divmod(len(answer.output), _item_bytes(stated.output))
        assert not rest
        if stated.per is not None:
            assert results == -(-rows // stated.per)
        unit_bytes = core(answer.params).chunk_multiple_bytes
        if unit_bytes is not None and stated.per == 1:
            assert unit_bytes % _item_bytes(stated.input) == 0
    if core.rounding is not None:
        dtype = numpy.dtype(stated.output.dtype)
        assert numpy.empty(0, dtype).real.dtype == core.rounding[0]


def _item_bytes(items):
    return math.prod(items.shape) * numpy.dtype(items.dtype).itemsize


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("name", "no spaces"),
        ("peak_bytes_per_s", 0),
        ("peak_bytes_per_s", True),
        ("peak_bytes_per_s", "2e9"),
        ("return_ratio", -1),
        ("stateless", 1),
        ("shapes", [1]),
        ("core", ""),
        ("core", "module:"),
        ("core", ".module:Class"),
        ("core", "module:Class()"),
        ("chunk_multiple_bytes", 0),
        ("platforms", {"cpu": {"active_w": 15}}),
        ("platforms", {"cpu": {"peak_bytes_per_s": 1, "active_w": -1}}),
        ("params_schema", {"arrays": {"input": {"dtype": "uint8"}}}),
        ("params_schema", {"arrays": None}),
    ],
)
def test_profile_with_a_wrong_member(member, value):
    with pytest.raises(base.AcceleratorError) as caught:
        base.profile_from_document({**PROFILE, member: value}, "file")
    assert caught.value.code == "INVALID_PROFILE"
    assert caught.value.message.startswith(f"file: {member}")


@pytest.mark.parametrize(
    ("name", "ratio"), [("lr", 3.4), ("km", 4.3), ("sw", 10), ("gzip", 26.7)]
)
def test_rates_have_the_ratios_of_the_paper(name, ratio):
    threads_bytes_per_s = 60e6
    peak_bytes_per_s = base.load_profile(name).peak_bytes_per_s
    assert peak_bytes_per_s / threads_bytes_per_s == pytest.approx(ratio)


def test_profile_with_an_unknown_member():
    with pytest.raises(base.AcceleratorError, match="unknown member 'colour'"):
        base.profile_from_document({**PROFILE, "colour": "red"}, "file")


@pytest.mark.parametrize("member", PROFILE)
def test_profile_without_a_member(member):
    document = {name: PROFILE[name] for name in PROFILE if name != member}
    with pytest.raises(base.AcceleratorError) as caught:
        base.profile_from_document(document, "file")
    assert caught.value.message == f"file: {member}: is missing"


def test_profile_file_that_is_no_yaml(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("{")
    with pytest.raises(base.AcceleratorError) as caught:
        base.read_profile(path)
    assert caught.value.code == "INVALID_PROFILE"


@pytest.mark.parametrize("load", [base.load_profile, base.load_core])
def test_unknown_names_list_the_known_ones(load):
    with pytest.raises(base.AcceleratorError) as caught:
        load("../aes")
    assert caught.value.code == "UNKNOWN_ACCELERATOR"
    assert "aes, aes-cbc, align, copy" in caught.value.message


@pytest.mark.parametrize("prefix", ["../", "/", "{directory}/"])
def test_names_do_not_lead_out_of_the_directory(operator_directory, prefix):
    (operator_directory / "own").mkdir()
    (operator_directory / "mine.yaml").write_text(
        json.dumps({**PROFILE, "name": "mine"})
    )
    name = f"{prefix.format(directory=operator_directory)}mine"
    for odd in (name, f"own/../{name}", "", "mine\0", "x" * 5000):
        with pytest.raises(base.AcceleratorError) as caught:
            base.load_profile(odd)
        assert caught.value.code == "UNKNOWN_ACCELERATOR"


def test_profiles_of_the_operator(operator_directory):
    document = {**PROFILE, "name": "mine", "core": "some.module:Class"}
    (operator_directory / "mine.yaml").write_text(json.dumps(document))
    assert base.load_profile("mine").core == "some.module:Class"
    assert "mine" in base.profile_names()
    (operator_directory / "copy.yaml").write_text(json.dumps(PROFILE))
    assert base.load_profile("copy").description == "Copies"
    assert base.load_profiles()["aes"].name == "aes"


def test_a_profile_is_named_like_its_file(operator_directory):
    (operator_directory / "mine.yaml").write_text(json.dumps(PROFILE))
    with pytest.raises(base.AcceleratorError) as caught:
        base.load_profile("mine")
    assert caught.value.code == "INVALID_PROFILE"
    assert "mine.yaml: name: " in caught.value.message


def test_core_by_module_and_class():
    core = base.load_core("fpgapool.accelerators.copy:CopyCore")
    assert core is base.load_core("copy")


@pytest.mark.parametrize(
    "name",
    [
        "fpgapool.accelerators.nothing:Core",
        "fpgapool.accelerators.copy:Nothing",
        "fpgapool.accelerators.base:Profile",
        "fpgapool.accelerators.base:load_core",
    ],
)
def test_core_that_cannot_be_had(name):
    with pytest.raises(base.AcceleratorError) as caught:
        base.load_core(name)
    assert caught.value.code == "CORE_UNAVAILABLE"
    assert name in caught.value.message


#: Parameters, bytes of an item, and of its result, which is single numbers.
ITEMS = {
    "align": ({"query_symbols": 5, "target_symbols": 9}, 14, 34),
    "dtw": ({"length_samples": 6}, 48, 8),
    "fft": ({"frame_samples": 30}, 240, 240),
    "sw": ({"query_symbols": 5, "target_symbols": 9}, 14, 12),
}
each_of_items = pytest.mark.parametrize(
    ("name", "params", "item_bytes", "result_bytes"),
    [(name, *sizes) for name, sizes in ITEMS.items()],
)


@each_of_items
@given(count=st.integers(1, 40), cuts=runs.CUTS)
def test_cuts_change_nothing(
    name, params, item_bytes, result_bytes, count, cuts
):
    numbers = numpy.random.default_rng(count).standard_normal(count * 60)
    data = numbers.astype("<f4").tobytes()[: count * item_bytes]
    core = runs.load(name, **params)
    assert runs.multiple_bytes(name, core) == item_bytes
    expected = runs.run(core, data)
    assert len(expected) == result_bytes * count
    assert runs.run(core, data, cuts, item_bytes) == expected


@each_of_items
def test_refuses_an_incomplete_item(name, params, item_bytes, result_bytes):
    kind = {
        "align": "pair of sequences",
        "dtw": "pair of series",
        "sw": "pair of sequences",
    }
    with pytest.raises(base.InvalidInput) as caught:
        runs.process(runs.load(name, **params), bytes(item_bytes + 5))
    place = f"5 bytes into a {kind.get(name, 'frame of 240 bytes')}"
    assert place in caught.value.message


@pytest.mark.parametrize("name", ["align", "dtw", "gzip", "sw"])
def test_cancel_ends_a_call_early(name):
    params, item_bytes, _ = ITEMS.get(name, ({}, 4, 0))
    core = runs.load(name, **params)
    core.cancel()
    assert runs.process(core, bytes(item_bytes)) == b""


def test_copy():
    core = base.load_core("copy")({})
    assert runs.process(core, b"some data") == b"some data"
    assert core.finish(memoryview(bytearray())) == 0


@pytest.mark.parametrize("name", sorted(base.load_profiles()))
@given(data=st.binary(max_size=100), cut=st.integers(0, 100))
def test_work_in_place_gives_the_same(name, data, cut):
    params = CASES[name][0]
    core = runs.load(name, **params)
    if not core.in_place:
        return
    place = memoryview(bytearray(data))
    for start, piece in ((0, place[:cut]), (cut, place[cut:])):
        if piece:
            assert core.process(piece, piece, start) == len(piece)
    assert core.finish(place[:0]) == 0
    assert place == runs.run(runs.load(name, **params), data)


def test_who_works_in_place():
    assert {
        name
        for name in base.profile_names()
        if runs.load(name, **CASES[name][0]).in_place
    } == {"aes", "copy"}


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("data", [b"", b"data"])
def test_copy_takes_no_arguments(number, data):
    core = base.load_core("copy")({})
    with pytest.raises(base.InvalidInput) as caught:
        core.set_argument(number, memoryview(data))
    assert caught.value.code == "INVALID_ARGUMENT"
    assert caught.value.message.endswith(f"no argument {number}")
    assert runs.process(core, b"data") == b"data"


def test_copy_takes_no_params():
    with pytest.raises(base.InvalidParams) as caught:
        base.load_core("copy")({"key": "hush"})
    assert caught.value.code == "INVALID_PARAMS"
    assert "hush" not in caught.value.message


@pytest.mark.parametrize(
    "params",
    [
        [],
        {"key": " " + KEY[1:], "iv": IV},
        {"key": KEY + "\n", "iv": IV},
        {"key": bytes(16), "iv": IV},
    ],
)
def test_aes_params_that_do_not_suit(params):
    with pytest.raises(base.InvalidParams) as caught:
        base.load_core("aes")(params)
    assert isinstance(caught.value, ValueError)
    assert KEY not in str(caught.value)


@given(
    key=st.sampled_from([16, 24, 32]).flatmap(
        lambda n: st.binary(min_size=n, max_size=n)
    ),
    iv=st.binary(min_size=16, max_size=16)
    | st.integers(0, 20).map(lambda n: (2**128 - 1 - n).to_bytes(16)),
    data=st.binary(min_size=1, max_size=500),
    cuts=st.lists(st.integers(0, 500), max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_aes_pieces_in_any_order(key, iv, data, cuts, order):
    context = ciphers.Cipher(algorithms.AES(key), modes.CTR(iv)).encryptor()
    expected = context.update(data) + context.finalize()
    core = base.load_core("aes")({"key": key.hex().upper(), "iv": iv.hex()})
    ends = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    pieces = list(itertools.pairwise(ends))
    order.shuffle(pieces)
    out = bytearray(len(data))
    for start, end in pieces:
        out[start:end] = runs.process(core, data[start:end], start)
    assert out == expected


def test_aes_at_a_large_offset():
    core = base.load_core("aes")({"key": KEY, "iv": IV})
    offset = 2**40 + 5
    counter = (int.from_bytes(bytes.fromhex(IV)) + offset // 16) % 2**128
    context = ciphers.Cipher(
        algorithms.AES(bytes(16)), modes.CTR(counter.to_bytes(16))
    ).encryptor()
    expected = context.update(bytes(64))[5:]
    assert runs.process(core, bytes(59), offset) == expected
