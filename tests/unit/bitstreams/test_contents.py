# SPDX-License-Identifier: Apache-2.0

"""What files say of themselves, beside what their owners say."""

import json

import pytest

from fpgapool.bitstreams import contents
from fpgapool.bitstreams import library
from fpgapool.common import exception
from fpgapool.drivers.opencl import package
from tests.unit.bitstreams import samples
from tests.unit.drivers.opencl import packages
from tests.unit.drivers.opencl import xclbins

VADD = packages.manifest(kernel="vadd")
OWN_SHAPE = f"Xilinx-{xclbins.PLATFORM}"


def record(**members):
    values = {"format": "opencl-source", "profile": {}, "shapes": ["cpu"]}
    return samples.record(**{**values, **members})


def code_of(data, **members):
    with pytest.raises(exception.BitstreamRefused) as caught:
        contents.read(record(**members), data)
    assert len(caught.value.message) <= 500
    return caught.value.code


def test_a_manifest_brings_the_profile():
    found = contents.read(record(), packages.source())
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
    found = contents.read(record(profile={"peak_bytes_per_s": 1e6}), data)
    assert found.profile["peak_bytes_per_s"] == 1e6
    assert "peak_bytes_per_s" not in contents.read(record(), data).profile


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
    found = contents.read(record(**members, shapes=[]), data)
    assert found.shapes == (OWN_SHAPE,)
    # An operator gives shapes other names.
    for shapes in ([OWN_SHAPE], ["u50"], ["u50", OWN_SHAPE]):
        found = contents.read(record(**members, shapes=shapes), data)
        assert found.shapes == tuple(shapes)
    for shapes in (["Xilinx-xilinx_u250"], ["u50", "Xilinx-xilinx_u50"]):
        code = code_of(data, **members, shapes=shapes)
        assert code == "XCLBIN_OTHER_PLATFORM"
