# SPDX-License-Identifier: Apache-2.0

"""What files say of themselves, beside what their owners say."""

import json
import random
import tracemalloc

import pytest

from fpgapool.bitstreams import contents
from fpgapool.bitstreams import library
from fpgapool.common import exception
from fpgapool.drivers.opencl.contents import package
from tests.unit.bitstreams import samples
from tests.unit.drivers.opencl import packages
from tests.unit.drivers.opencl import xclbins

VADD = packages.manifest(kernel="vadd")
OWN_SHAPE = f"Xilinx-{xclbins.PLATFORM}"


def record(**members):
    values = {"format": "opencl-source", "profile": {}, "shapes": ["cpu"]}
    return samples.record(**{**values, **members})


def read(described, data):
    return contents.read(described, [data], len(data))


def code_of(data, **members):
    with pytest.raises(exception.BitstreamRefused) as caught:
        read(record(**members), data)
    assert len(caught.value.message) <= 500
    return caught.value.code


def test_a_manifest_brings_the_profile():
    found = read(record(), packages.source())
    assert found.shapes == ("cpu",)
    assert found.resources == {}
    assert found.profile == {
        "description": "Adds to each byte",
        "peak_bytes_per_s": 5e8,
        "stateless": True,
        "return_ratio": 1.0,
        "chunk_multiple_bytes": 4,
        "params_schema": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "amount": {"type": "integer", "minimum": 0, "maximum": 255}
            },
            "required": ["amount"],
        },
    }
    library.check_profile(found.profile)


def test_the_owner_says_what_the_manifest_does_not():
    data = packages.source(peak_bytes_per_s=None)
    found = read(record(profile={"peak_bytes_per_s": 1e6}), data)
    assert found.profile["peak_bytes_per_s"] == 1e6
    assert "peak_bytes_per_s" not in read(record(), data).profile


@pytest.mark.parametrize(
    ("data", "members", "code"),
    [
        (b"kernel void f() {}", {}, "INVALID_PACKAGE"),
        (packages.source()[:-1], {}, "INVALID_PACKAGE"),
        (packages.source(), {"format": "opencl-binary"}, "INVALID_PACKAGE"),
        (packages.source(), {"format": "xclbin"}, "INVALID_PACKAGE"),
        (packages.source(), {"accelerator": "aes"}, "INVALID_MANIFEST"),
        (
            packages.source(),
            {"profile": {"chunk_multiple_bytes": 8}},
            "INVALID_MANIFEST",
        ),
        (
            packages.source().replace(b'"name"', b'"eman"'),
            {},
            "INVALID_MANIFEST",
        ),
        (
            packages.source().replace(b"opencl-source", b"opencl-spirit"),
            {},
            "INVALID_PACKAGE",
        ),
        # Truncated, with a header that counts what is there.
        (
            package._HEADER.pack(package.MAGIC, 6, len(VADD), 400)
            + b"xclbin"
            + VADD
            + xclbins.write()[:400],
            {"format": "xclbin"},
            "XCLBIN_TRUNCATED",
        ),
        (
            package._HEADER.pack(package.MAGIC, 6, len(VADD), 600)
            + b"xclbin"
            + VADD
            + b"xclbin2\0"
            + b"\xff" * 592,
            {"format": "xclbin"},
            "XCLBIN_TRUNCATED",
        ),
        (
            json.dumps({"format_version": 2}).encode(),
            {"format": "declaration"},
            "INVALID_DECLARATION",
        ),
    ],
)
def test_what_is_wrong_is_refused(data, members, code):
    assert code_of(data, **members) == code


def test_an_xclbin_has_the_shape_of_its_platform():
    data = package.pack("xclbin", VADD, xclbins.write())
    members = {"format": "xclbin"}
    found = read(record(**members, shapes=[]), data)
    assert found.shapes == (OWN_SHAPE,)
    # An operator gives shapes other names.
    for shapes in ([OWN_SHAPE], ["u50"], ["u50", OWN_SHAPE]):
        found = read(record(**members, shapes=shapes), data)
        assert found.shapes == tuple(shapes)
    for shapes in (["Xilinx-xilinx_u250"], ["u50", "Xilinx-xilinx_u50"]):
        code = code_of(data, **members, shapes=shapes)
        assert code == "XCLBIN_OTHER_PLATFORM"


@pytest.mark.parametrize("kind", ["xclbin", "opencl-binary"])
def test_a_large_file_is_read_in_little_memory(kind):
    large = (xclbins.BITSTREAM, b"bitstream", bytes(48 << 20))
    # What is read is behind it.
    payload = xclbins.write([large, *xclbins.SECTIONS[1:]])
    data = memoryview(package.pack(kind, VADD, payload))
    piece_bytes = 1 << 20
    pieces = (
        bytes(data[start : start + piece_bytes])
        for start in range(0, len(data), piece_bytes)
    )
    tracemalloc.start()
    try:
        described = record(format=kind)
        found = contents.read(described, pieces, len(data))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.shapes
    assert peak_bytes < len(data) / 8


@pytest.mark.parametrize("seed", range(20))
def test_pieces_of_any_length_say_the_same(seed):
    data = package.pack("xclbin", VADD, xclbins.write(xclbins.SECTIONS[::-1]))
    described = record(format="xclbin", shapes=[])
    chance = random.Random(seed)
    cuts = sorted(chance.choices(range(len(data)), k=seed))
    pieces = [
        data[start:end]
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)
    ]
    assert contents.read(described, pieces, len(data)) == read(described, data)


def test_a_file_that_is_shorter_than_it_was_is_refused():
    data = packages.source()
    for length in range(0, len(data), 7):
        with pytest.raises(exception.StoreFailed):
            contents.read(record(), [data[:length]], len(data))
