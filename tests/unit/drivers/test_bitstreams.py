# SPDX-License-Identifier: Apache-2.0

"""What the emulator makes of a bitstream's file."""

import functools
import hashlib
import json

import pytest

from fpgapool.drivers import base
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import formats
from tests.unit.drivers import emulated

SHAPES = {"small": {"lut": 100, "dsp": 0}, "large": {"lut": 1000, "dsp": 10}}


def declaration(**changes):
    return json.dumps(
        {
            "format_version": 1,
            "name": "mine",
            "core": "aes",
            "peak_bytes_per_s": 3e8,
            "params": {"iv": "00" * 16},
            **changes,
        }
    ).encode()


@pytest.fixture
def make_file(tmp_path):
    def make(data, **changes):
        path = tmp_path / "file"
        path.write_bytes(data)
        return base.BitstreamFile(
            **{
                "accelerator": "mine@p",
                "path": str(path),
                "checksum_sha256": hashlib.sha256(data).hexdigest(),
                "size_bytes": len(data),
                "format": formats.DECLARATION,
                **changes,
            }
        )

    return make


@pytest.fixture
def make_driver(tmp_path):
    return functools.partial(
        emulated.make, tmp_path, shapes=SHAPES, shape="small"
    )


def refusal(call, *arguments):
    with pytest.raises(base.DriverError) as caught:
        call(*arguments)
    return caught.value.code


def test_slots_tell_how_much_they_have(make_driver):
    (device,) = make_driver().discover()
    assert device.slots[0].resources == {"lut": 100, "dsp": 0}
    (device,) = make_driver(shape="other").discover()
    assert device.slots[0].resources is None


@pytest.mark.parametrize(
    ("shapes", "place"),
    [
        ([], "shapes"),
        ({"small": []}, "shapes.small"),
        ({"small": {"gates": 1}}, "shapes.small: unknown member 'gates'"),
        ({"small": {"lut": -1}}, "shapes.small.lut"),
        ({"small": {"lut": True}}, "shapes.small.lut"),
        ({"../x": {}}, "shapes.../x: "),
        ({f"shape{number}": {} for number in range(300)}, "shapes"),
    ],
)
def test_a_wrong_table_of_shapes_is_refused(make_driver, shapes, place):
    with pytest.raises(base.DriverError) as caught:
        make_driver(shapes=shapes)
    assert caught.value.code == codes.INVALID_SETTINGS
    assert place in caught.value.message


def test_a_file_is_programmed_by_the_library_name(make_driver, make_file):
    driver = make_driver()
    file = make_file(declaration(stateless=True, return_ratio=2))
    profile = driver.program("board0", 0, "bitstream:1", file)
    assert profile.name == "mine@p"
    assert (profile.core, profile.peak_bytes_per_s) == ("aes", 3e8)
    assert (profile.stateless, profile.return_ratio) == (True, 2.0)
    (device,) = driver.discover()
    assert device.slots[0].programmed == "mine@p"


def test_the_core_gets_fixed_and_given_parameters(make_driver, make_file):
    driver = make_driver()
    driver.program("board0", 0, "bitstream:1", make_file(declaration()))
    params = {"key": "ab" * 16}
    core = driver.open("board0", 0, params)
    plain, cipher = memoryview(bytearray(64)), memoryview(bytearray(64))
    assert core.process(plain, cipher, 0) == 64
    driver.program("board0", 1, "builtin:aes")
    twin = driver.open("board0", 1, {**params, "iv": "00" * 16})
    expected = memoryview(bytearray(64))
    twin.process(plain, expected, 0)
    assert cipher == expected != plain


@pytest.mark.parametrize(
    "params", [{"iv": "11" * 16, "key": "ab" * 16}, {}, {"other": 1}]
)
def test_wrong_parameters_are_refused(make_driver, make_file, params):
    driver = make_driver()
    driver.program("board0", 0, "bitstream:1", make_file(declaration()))
    with pytest.raises(base.InvalidParams) as caught:
        driver.open("board0", 0, params)
    assert "11" * 16 not in caught.value.message


def test_a_bitstream_that_is_too_large_does_not_fit(make_driver, make_file):
    data = declaration(resources={"lut": 200, "dsp": 3})
    with pytest.raises(base.DriverError) as caught:
        make_driver().program("board0", 0, "bitstream:1", make_file(data))
    assert caught.value.code == codes.BITSTREAM_UNFIT
    assert "200 lut (the slot has 100)" in caught.value.message
    make_driver(shape="large").program(
        "board0", 0, "bitstream:1", make_file(data)
    )


@pytest.mark.parametrize(
    ("data", "changes", "code"),
    [
        (b"netlist", {}, codes.BITSTREAM_UNKNOWN),
        (declaration(core="none"), {}, codes.BITSTREAM_UNKNOWN),
        (declaration(), {"format": formats.BINARY}, codes.BITSTREAM_UNKNOWN),
        (declaration(), {"size_bytes": 65537}, codes.BITSTREAM_UNKNOWN),
        (declaration(), {"size_bytes": 5}, codes.BITSTREAM_DAMAGED),
        (
            declaration(),
            {"checksum_sha256": "0" * 64},
            codes.BITSTREAM_DAMAGED,
        ),
        (declaration(), {"path": "/nowhere"}, codes.BITSTREAM_DAMAGED),
        (declaration(resources={"dsp": 1}), {}, codes.BITSTREAM_UNFIT),
    ],
)
def test_what_is_refused_leaves_the_slot_as_it_was(
    make_driver, make_file, data, changes, code
):
    driver = make_driver()
    driver.program("board0", 0, "builtin:copy")
    file = make_file(data, **changes)
    assert code == refusal(driver.program, "board0", 0, "bitstream:1", file)
    (device,) = driver.discover()
    assert device.slots[0].programmed == "copy"
    assert driver.open("board0", 0, {}).in_place


def test_only_another_bitstream_takes_time(
    make_driver, make_file, monkeypatch
):
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)
    driver = make_driver(programming_time_s=0.5)
    first = make_file(declaration())
    for bitstream in ("bitstream:1", "bitstream:1", "bitstream:2"):
        driver.program("board0", 0, bitstream, first)
    assert slept == [0.5, 0.5]
    driver.program("board0", 0, "builtin:copy")
    driver.program("board0", 0, "bitstream:2", first)
    assert slept == [0.5] * 4


def test_the_checksum_is_verified_even_if_the_slot_has_it(
    make_driver, make_file
):
    driver = make_driver()
    file = make_file(declaration())
    driver.program("board0", 0, "bitstream:1", file)
    with open(file.path, "ab") as stored:
        stored.write(b" ")
    code = refusal(driver.program, "board0", 0, "bitstream:1", file)
    assert code == codes.BITSTREAM_DAMAGED


def test_a_file_name_without_a_file_is_unknown(make_driver):
    code = refusal(make_driver().program, "board0", 0, "bitstream:1")
    assert code == codes.BITSTREAM_UNKNOWN


def test_the_pool_knows_what_is_not_a_slots_fault():
    assert {
        codes.BITSTREAM_DAMAGED,
        codes.BITSTREAM_UNFIT,
        codes.BITSTREAM_UNKNOWN,
        codes.BITSTREAM_UNAVAILABLE,
        codes.BITSTREAM_UNTRUSTED,
        codes.INVALID_MANIFEST,
        codes.INVALID_PACKAGE,
        codes.INVALID_XCLBIN,
        codes.KERNEL_BUILD_FAILED,
        codes.XCLBIN_OTHER_PLATFORM,
        codes.XCLBIN_OTHER_SHELL,
        codes.XCLBIN_TRUNCATED,
    } == codes.BITSTREAM_FAULTS
