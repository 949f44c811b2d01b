# SPDX-License-Identifier: Apache-2.0

"""Packages: what is read from them, and what is refused."""

import collections
import hashlib
import importlib.resources
import random
import struct

import pytest

from fpgapool.drivers import base
from fpgapool.drivers.opencl.contents import package
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from tests.unit.drivers.opencl import xclbins

SHIPPED = importlib.resources.files("fpgapool.drivers.opencl") / "kernels"
MANIFEST = (SHIPPED / "copy.json").read_bytes()
SOURCE = (SHIPPED / "copy.cl").read_bytes()
#: Calls the kernel that the written xclbins have.
VADD = MANIFEST.replace(b'"kernel": "copy"', b'"kernel": "vadd:{vadd_1}"')
XCLBIN = xclbins.write()

SOUND = {
    "opencl-source": package.pack("opencl-source", MANIFEST, SOURCE),
    "opencl-binary": package.pack("opencl-binary", MANIFEST, b"\x7fELF\0"),
    "xclbin": package.pack("xclbin", VADD, XCLBIN),
}


def written(
    kind=b"opencl-source",
    manifest=MANIFEST,
    payload=SOURCE,
    magic=b"FPGAPKG1",
    lengths=(0, 0, 0),
):
    """Make a file, with lengths that are wrong by so much."""
    wrong = [
        len(part) + more
        for part, more in zip((kind, manifest, payload), lengths, strict=True)
    ]
    return struct.pack("<8sIIQ", magic, *wrong) + kind + manifest + payload


def code_of(contents):
    with pytest.raises(exceptions.CodedError) as caught:
        package.unpack(contents)
    assert isinstance(caught.value, ValueError)
    assert len(caught.value.message) < 1000
    return caught.value.code


@pytest.mark.parametrize("kind", SOUND)
def test_reads_what_was_packed(kind):
    found = package.unpack(SOUND[kind])
    assert found.kind == kind
    assert found.manifest.name == "copy"
    assert SOUND[kind].endswith(found.payload)
    assert found.payload[:4] in (SOURCE[:4], b"\x7fELF", b"xclb")


def test_the_layout_is_the_documented_one():
    assert SOUND["opencl-source"] == written()


@pytest.mark.parametrize("kind", SOUND)
def test_every_cut_is_noticed(kind):
    for length_bytes in range(len(SOUND[kind])):
        cut = SOUND[kind][:length_bytes]
        assert code_of(cut) == codes.INVALID_PACKAGE
    assert code_of(SOUND[kind] + b"\0") == codes.INVALID_PACKAGE


@pytest.mark.parametrize(
    ("contents", "code"),
    [
        (b"", "INVALID_PACKAGE"),
        (MANIFEST, "INVALID_PACKAGE"),
        (XCLBIN, "INVALID_PACKAGE"),
        (written(magic=b"FPGAPKG2"), "INVALID_PACKAGE"),
        (written(kind=b""), "INVALID_PACKAGE"),
        (written(kind=b"declaration"), "INVALID_PACKAGE"),
        (written(kind=b"opencl-source\0"), "INVALID_PACKAGE"),
        (written(kind=b"\xff\n\0"), "INVALID_PACKAGE"),
        (written(kind=b"x" * 33), "INVALID_PACKAGE"),
        (written(kind=b"x" * 100_000), "INVALID_PACKAGE"),
        (written(lengths=(2**32 - 14, 0, 0)), "INVALID_PACKAGE"),
        (written(lengths=(0, 2**31, 0)), "INVALID_PACKAGE"),
        (written(lengths=(0, 0, 2**63)), "INVALID_PACKAGE"),
        (written(lengths=(0, 1, -1)), "INVALID_MANIFEST"),
        (written(lengths=(0, -2, 2)), "INVALID_MANIFEST"),
        (written(manifest=b""), "INVALID_MANIFEST"),
        (written(manifest=b"{}"), "INVALID_MANIFEST"),
        (written(manifest=b"[" * 60_000), "INVALID_MANIFEST"),
        (written(manifest=MANIFEST + b" " * 65536), "INVALID_PACKAGE"),
        (written(payload=b""), "INVALID_PACKAGE"),
        (written(payload=b"a" * (1 + (1 << 20))), "INVALID_PACKAGE"),
        (written(payload=b"kernel \xff"), "INVALID_PACKAGE"),
        (written(payload=b"/* \0 */"), "INVALID_PACKAGE"),
        (written(kind=b"xclbin"), "INVALID_XCLBIN"),
        (written(b"xclbin", VADD, XCLBIN[:400]), "XCLBIN_TRUNCATED"),
        # Lacks the manifest's kernel.
        (written(b"xclbin", MANIFEST, XCLBIN), "INVALID_XCLBIN"),
    ],
)
def test_wrong_files_are_refused(contents, code):
    assert code_of(contents) == code


def test_an_xclbin_may_have_no_metadata():
    plain = xclbins.write(xclbins.SECTIONS[:1])
    contents = package.pack("xclbin", MANIFEST, plain)
    assert package.unpack(contents).payload == plain


@pytest.mark.parametrize(
    ("kind", "manifest", "payload", "code"),
    [
        ("bitstream", MANIFEST, SOURCE, "INVALID_PACKAGE"),
        ("opencl-source", b"{", SOURCE, "INVALID_MANIFEST"),
        ("opencl-source", MANIFEST, b"", "INVALID_PACKAGE"),
        ("xclbin", VADD, XCLBIN[:-1], "XCLBIN_TRUNCATED"),
    ],
)
def test_packs_only_what_can_be_read(kind, manifest, payload, code):
    with pytest.raises(exceptions.CodedError) as caught:
        package.pack(kind, manifest, payload)
    assert caught.value.code == code


def damaged(chooser):
    """Make a package with a few wrong bytes, fields, cuts or insertions."""
    data = bytearray(chooser.choice([*SOUND.values()]))
    for _ in range(chooser.randint(1, 3)):
        match chooser.randrange(5):
            case 0:
                data[chooser.randrange(len(data))] = chooser.randrange(256)
            case 1:
                value = chooser.choice([0, 1, 2**31, 2**32 - 1, len(data)])
                place = chooser.choice([8, 12, 16, 20])
                data[place : place + 4] = struct.pack("<I", value)
            case 2:
                # The header counts what is gone, so that parts move.
                there = chooser.randrange(40, len(data) - 40)
                gone = chooser.randint(1, 40)
                del data[there : there + gone]
                payload = struct.unpack_from("<Q", data, 16)[0] - gone
                struct.pack_into("<Q", data, 16, payload % 2**64)
            case 3:
                more = chooser.randbytes(chooser.randint(1, 16))
                place = chooser.randrange(24, len(data))
                data[place:place] = more
                payload = struct.unpack_from("<Q", data, 16)[0] + len(more)
                struct.pack_into("<Q", data, 16, payload % 2**64)
            case 4:
                data[24:37] = chooser.choice([*SOUND]).encode().ljust(13)[:13]
    return bytes(data)


@pytest.mark.security
def test_fuzz_only_own_errors_come_out():
    chooser = random.Random(23)
    refusals = collections.Counter()
    for _ in range(1000):
        contents = damaged(chooser)
        try:
            found = package.unpack(contents)
        except exceptions.CodedError as error:
            refusals[error.code] += 1
        else:
            assert found.kind in SOUND
            assert contents.endswith(found.payload)
    assert set(refusals) == {
        "INVALID_MANIFEST",
        "INVALID_PACKAGE",
        "INVALID_XCLBIN",
        "XCLBIN_TRUNCATED",
    }
    assert refusals.total() > 500


def library_file(path, contents, **members):
    path.write_bytes(contents)
    values = {
        "accelerator": "copy",
        "path": str(path),
        "checksum_sha256": hashlib.sha256(contents).hexdigest(),
        "size_bytes": len(contents),
        **members,
    }
    return base.BitstreamFile(**values)


@pytest.mark.parametrize("kind", SOUND)
def test_drivers_load_what_the_library_says(tmp_path, kind):
    file = library_file(tmp_path / "file", SOUND[kind], format=kind)
    found = package.load(file)
    assert (found.kind, found.manifest.name) == (kind, "copy")
    assert (found.xclbin is not None) == (kind == "xclbin")


@pytest.mark.security
@pytest.mark.parametrize(
    ("file_format", "contents", "code"),
    [
        # A conductor's wrong word would let native code in without a
        # signature.
        ("xclbin", SOUND["opencl-source"], "BITSTREAM_UNKNOWN"),
        ("opencl-source", SOUND["opencl-binary"], "BITSTREAM_UNKNOWN"),
        ("binary", SOUND["opencl-binary"], "BITSTREAM_UNKNOWN"),
        ("declaration", SOUND["opencl-binary"], "BITSTREAM_UNKNOWN"),
        ("opencl-source", SOURCE, "INVALID_PACKAGE"),
        ("opencl-source", written(manifest=b"{}"), "INVALID_MANIFEST"),
    ],
)
def test_drivers_refuse_what_is_not_of_the_format(
    tmp_path, file_format, contents, code
):
    file = library_file(tmp_path / "file", contents, format=file_format)
    with pytest.raises(base.DriverError) as caught:
        package.load(file)
    assert caught.value.code == code


def test_a_damaged_file_is_not_read(tmp_path):
    file = library_file(
        tmp_path / "file", SOUND["xclbin"], format="xclbin", size_bytes=7
    )
    with pytest.raises(base.DriverError) as caught:
        package.load(file)
    assert caught.value.code == "BITSTREAM_DAMAGED"
