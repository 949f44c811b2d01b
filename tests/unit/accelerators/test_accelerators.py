#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Profiles and software cores."""

import itertools

import jsonschema
import pytest
from cryptography.hazmat.primitives import ciphers
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.ciphers import modes
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.accelerators import base

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


def process(core, data, offset_bytes=0):
    out = bytearray(core.max_output_bytes(len(data)))
    count = core.process(memoryview(data), memoryview(out), offset_bytes)
    return bytes(out[:count])


def test_every_profile_loads_with_its_core():
    profiles = base.load_profiles()
    assert set(profiles) == {"aes", "copy"}
    for name, profile in profiles.items():
        assert profile.name == name
        assert issubclass(base.load_core(profile.core), base.Core)
        jsonschema.Draft202012Validator.check_schema(profile.params_schema)


def test_schema_and_core_agree():
    schema = base.load_profile("aes").params_schema
    jsonschema.validate({"key": KEY, "iv": IV}, schema)
    for params in (
        {"key": KEY},
        {"key": KEY[2:], "iv": IV},
        {"key": KEY, "iv": IV, "mode": "ecb"},
        {"key": 7, "iv": IV},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(params, schema)
        with pytest.raises(base.InvalidParams):
            base.load_core("aes")(params)


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
        ("chunk_multiple_bytes", 0),
        ("colour", "red"),
    ],
)
def test_profile_with_a_wrong_member(member, value):
    with pytest.raises(base.AcceleratorError) as caught:
        base.profile_from_document({**PROFILE, member: value}, "file")
    assert caught.value.code == "INVALID_PROFILE"
    assert caught.value.message.startswith(f"file: {member}: ")


@pytest.mark.parametrize("member", PROFILE)
def test_profile_without_a_member(member):
    document = {name: PROFILE[name] for name in PROFILE if name != member}
    with pytest.raises(base.AcceleratorError) as caught:
        base.profile_from_document(document, "file")
    assert caught.value.message == f"file: {member}: missing"


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
    assert "aes, copy" in caught.value.message


def test_copy():
    core = base.load_core("copy")({})
    assert process(core, b"some data") == b"some data"
    assert core.finish(memoryview(bytearray())) == 0


def test_copy_takes_no_params():
    with pytest.raises(base.InvalidParams) as caught:
        base.load_core("copy")({"key": "hush"})
    assert caught.value.code == "INVALID_PARAMS"
    assert "hush" not in caught.value.message


@pytest.mark.parametrize(
    "params",
    [
        {},
        [],
        {"key": KEY},
        {"iv": IV},
        {"key": "zz" * 16, "iv": IV},
        {"key": " " + KEY[1:], "iv": IV},
        {"key": KEY + "\n", "iv": IV},
        {"key": bytes(16), "iv": IV},
        {"key": KEY, "iv": IV[1:]},
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
        out[start:end] = process(core, data[start:end], start)
    assert out == expected


def test_aes_at_a_large_offset():
    core = base.load_core("aes")({"key": KEY, "iv": IV})
    offset = 2**40 + 5
    counter = (int.from_bytes(bytes.fromhex(IV)) + offset // 16) % 2**128
    context = ciphers.Cipher(
        algorithms.AES(bytes(16)), modes.CTR(counter.to_bytes(16))
    ).encryptor()
    expected = context.update(bytes(64))[5:]
    assert process(core, bytes(59), offset) == expected
