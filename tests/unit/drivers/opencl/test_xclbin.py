# SPDX-License-Identifier: Apache-2.0

"""Xclbins: what is read from them, and what is refused."""

import random
import struct
import uuid

import pytest

from fpgapool.drivers.opencl.contents import xclbin
from tests.unit.drivers.opencl import xclbins

SOUND = xclbins.write()
#: Positions of fields in the header.
LENGTH, VERSION, COUNT, TABLE = 304, 330, 448, 456


def changed(position, form, value, data=SOUND):
    """Make a file with another value of a field."""
    size = struct.calcsize(form)
    field = struct.pack(form, value)
    return data[:position] + field + data[position + size :]


def with_section(kind, contents):
    """Make a file with other contents of a section."""
    return xclbins.write(
        [
            (number, name, contents if number == kind else data)
            for number, name, data in xclbins.SECTIONS
        ]
    )


def code_of(data):
    with pytest.raises(xclbin.XclbinError) as caught:
        xclbin.parse(data)
    assert len(caught.value.message) < 500
    return caught.value.code


def test_reads_what_was_written():
    found = xclbin.parse(SOUND)
    assert found.platform == xclbins.PLATFORM
    assert found.interface_uuid == xclbins.INTERFACE
    assert [section.kind for section in found.sections] == [0, 2, 6, 7, 8]
    assert found.kernels == ("vadd",)


def test_a_file_may_have_no_more_than_a_bitstream():
    found = xclbin.parse(xclbins.write(xclbins.SECTIONS[:1], interface=None))
    assert found.kernels == ()
    assert found.interface_uuid is None


def test_a_signature_follows_the_file():
    signed = xclbins.write(signature=b"signature")
    assert xclbin.parse(signed) == xclbin.parse(SOUND)
    assert code_of(signed[:-1]) == "INVALID_XCLBIN"
    assert code_of(SOUND + b"!") == "INVALID_XCLBIN"


def test_which_board_it_fits():
    found = xclbin.parse(SOUND)
    found.check_fits(xclbins.PLATFORM, xclbins.INTERFACE)
    for platform, interface, code in (
        ("xilinx_u250", xclbins.INTERFACE, "XCLBIN_OTHER_PLATFORM"),
        (xclbins.PLATFORM, uuid.UUID(int=1), "XCLBIN_OTHER_SHELL"),
        (xclbins.PLATFORM, None, "XCLBIN_OTHER_SHELL"),
    ):
        with pytest.raises(xclbin.XclbinError) as caught:
            found.check_fits(platform, interface)
        assert caught.value.code == code
    plain = xclbin.parse(xclbins.write(interface=None))
    plain.check_fits(xclbins.PLATFORM, None)


def test_every_cut_is_noticed():
    for length_bytes in range(len(SOUND)):
        assert code_of(SOUND[:length_bytes]) == "XCLBIN_TRUNCATED"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"xclbin0\0" + SOUND[8:], "INVALID_XCLBIN"),
        (b"\x7fELF", "INVALID_XCLBIN"),
        (changed(LENGTH, "<Q", len(SOUND) + 1), "XCLBIN_TRUNCATED"),
        (changed(LENGTH, "<Q", 2**64 - 1), "XCLBIN_TRUNCATED"),
        (changed(LENGTH, "<Q", 100), "INVALID_XCLBIN"),
        (changed(VERSION, "<B", 1), "INVALID_XCLBIN"),
        (changed(COUNT, "<I", 0), "INVALID_XCLBIN"),
        (changed(COUNT, "<I", 257), "INVALID_XCLBIN"),
        (changed(COUNT, "<I", 2**32 - 1), "INVALID_XCLBIN"),
        (changed(COUNT, "<I", 256), "XCLBIN_TRUNCATED"),
        # The first section's offset and size.
        (changed(TABLE + 24, "<Q", 8), "INVALID_XCLBIN"),
        (changed(TABLE + 24, "<Q", len(SOUND)), "XCLBIN_TRUNCATED"),
        (changed(TABLE + 24, "<Q", 2**64 - 1), "XCLBIN_TRUNCATED"),
        (changed(TABLE + 32, "<Q", 2**64 - 1), "XCLBIN_TRUNCATED"),
        (changed(TABLE + 32, "<Q", 72), "INVALID_XCLBIN"),
        (changed(352, "<B", 0xFF), "INVALID_XCLBIN"),
        (xclbins.write(xclbins.SECTIONS * 2), "INVALID_XCLBIN"),
        (with_section(xclbins.MEMORY, b""), "INVALID_XCLBIN"),
        (with_section(xclbins.MEMORY, bytes(7)), "INVALID_XCLBIN"),
        (
            with_section(xclbins.MEMORY, struct.pack("<i4x", -1)),
            "INVALID_XCLBIN",
        ),
        (
            with_section(xclbins.MEMORY, struct.pack("<i4x", 2**31 - 1)),
            "INVALID_XCLBIN",
        ),
        (
            with_section(xclbins.MEMORY, struct.pack("<i4x", 1)),
            "INVALID_XCLBIN",
        ),
    ],
)
def test_wrong_files_are_refused(data, code):
    assert code_of(data) == code


def kernels(inner):
    return (
        b"<project><platform><device><core>%s</core></device></platform>"
        b"</project>" % inner
    )


LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE project [<!ENTITY a "%s">\
<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><project>&b;</project>"""


@pytest.mark.parametrize(
    ("xml", "what"),
    [
        (b"", "not XML"),
        (b"<project>", "not XML"),
        (b"<project></kernel>", "not XML"),
        (b"<project>\xff</project>", "not XML"),
        (b'<project a="&lol;"/>', "not XML"),
        (LAUGHS % (b"x" * 1000), "document type"),
        (b'<!DOCTYPE project SYSTEM "file:///etc/passwd"><project/>', "type"),
        (b"<project>" * 33, "nested more than"),
        (b"<a>" * 100_000, "nested more than"),
        (kernels(b"<a/>" * 100_000), "more than 100000 elements"),
        (kernels(b'<kernel name="k"/>' * 257), "more than 256 kernels"),
        (kernels(b"<kernel/>"), "a kernel name"),
        (
            kernels(b'<kernel name="%s"/>' % (b"k" * 257)),
            "a kernel name",
        ),
        (kernels(b'<kernel name="a&#10;b"/>'), "a kernel name"),
        (
            b"<p>" + b" " * xclbin.MAX_METADATA_BYTES + b"</p>",
            "larger than the limit",
        ),
    ],
)
def test_wrong_metadata_is_refused(xml, what):
    data = with_section(xclbins.METADATA, xml)
    with pytest.raises(xclbin.XclbinError, match=what) as caught:
        xclbin.parse(data)
    assert caught.value.code == "INVALID_XCLBIN"


def test_kernels_elsewhere_are_none():
    xml = b'<project><kernel name="k"><arg name="a"/></kernel></project>'
    found = xclbin.parse(with_section(xclbins.METADATA, xml))
    assert found.kernels == ()


def damaged(chooser):
    """Make a file with a few wrong bytes, fields, cuts or insertions."""
    data = bytearray(SOUND)
    for _ in range(chooser.randint(1, 4)):
        match chooser.randrange(5):
            case 0:
                data[chooser.randrange(len(data))] = chooser.randrange(256)
            case 1:
                field = chooser.randrange(LENGTH, TABLE + 200, 8)
                value = chooser.choice([0, 1, 2**31, 2**63, 2**64 - 1, 456])
                data[field : field + 8] = struct.pack("<Q", value)
            case 2:
                del data[chooser.randrange(300, len(data)) :]
                data += bytes(300 - min(300, len(data)))
            case 3:
                place = chooser.randrange(len(data))
                data[place:place] = chooser.randbytes(chooser.randint(1, 16))
            case 4:
                place = chooser.randrange(len(data))
                data[place : place + 4] = chooser.choice(
                    [b"<!--", b"&#0;", b"]]>\0", b"\0\0\0\0", b'<a b="']
                )
    return bytes(data)


@pytest.mark.security
def test_fuzz_only_own_errors_come_out():
    chooser = random.Random(23)
    refusals = []
    for _ in range(1000):
        data = damaged(chooser)
        try:
            found = xclbin.parse(data)
        except xclbin.XclbinError as error:
            refusals.append(error.code)
        else:
            for section in found.sections:
                assert (
                    section.offset_bytes + section.size_bytes <= len(data)
                    or not section.size_bytes
                )
    assert set(refusals) == {"INVALID_XCLBIN", "XCLBIN_TRUNCATED"}
    assert len(refusals) > 500
