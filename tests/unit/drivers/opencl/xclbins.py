# SPDX-License-Identifier: Apache-2.0

"""Writes the smallest xclbins that the vendor's runtime loads."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence

PLATFORM = "xilinx_u50_noop"
INTERFACE = uuid.UUID("0f3c2a52-6c1f-4d8e-8a4b-53ad5d8a1f00")
OWN = uuid.UUID("7d0f7e0a-9d5c-45a6-bb0a-0c4f4d0f5a11")

BITSTREAM, METADATA, MEMORY, CONNECTIVITY, KERNELS = 0, 2, 6, 7, 8

XML = b"""<?xml version="1.0" encoding="UTF-8"?>
<project name="vadd"><platform vendor="xilinx" boardid="u50" \
name="gen3x16_xdma" featureRomTime="0"><device name="fpga0"><core \
name="OCL_REGION_0" target="bitstream" type="clc_region" clockFreq="0MHz">\
<kernel name="vadd" language="c" attributes="" \
hwControlProtocol="ap_ctrl_hs"><port name="s_axi_control" mode="slave" \
range="0x1000" dataWidth="32" portType="addressable" base="0x0"/><port \
name="m_axi_gmem" mode="master" range="0xFFFFFFFF" dataWidth="512" \
portType="addressable" base="0x0"/><arg name="n" addressQualifier="0" id="1" \
port="s_axi_control" size="0x4" offset="0x18" hostOffset="0x0" hostSize="0x4" \
type="uint"/><arg name="a" addressQualifier="1" id="0" port="m_axi_gmem" \
size="0x8" offset="0x10" hostOffset="0x0" hostSize="0x8" type="int*"/><arg \
name="s" addressQualifier="4" id="" type="stream"/>\
<instance name="vadd_1"><addrRemap base="0x1800000" range="0x10000" \
port="s_axi_control"/></instance><instance name="vadd_2"/></kernel></core>\
</device></platform></project>
"""


def memories(*banks: tuple[str, int, bool]) -> bytes:
    """Make a memory topology.

    :param banks: name, KiB, and whether it is used.
    """
    return struct.pack("<i4x", len(banks)) + b"".join(
        struct.pack("<BB6xQQ16s", 1, used, size, 0, tag.encode())
        for tag, size, used in banks
    )


Section = tuple[int, bytes, bytes]
SECTIONS: tuple[Section, ...] = (
    (BITSTREAM, b"bitstream", bytes(64)),
    (METADATA, b"embedded", XML),
    (MEMORY, b"memtopo", memories(("bank0", 0x1000000, True))),
    (CONNECTIVITY, b"conn", struct.pack("<i3i", 1, 0, 0, 0)),
    (
        KERNELS,
        b"ip",
        struct.pack("<i4xIIQ64s", 1, 1, 1, 0x1800000, b"vadd:vadd_1"),
    ),
)


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // 8) * 8


def write(
    sections: Sequence[Section] = SECTIONS,
    *,
    platform: str = PLATFORM,
    interface: uuid.UUID | None = INTERFACE,
    own: uuid.UUID = OWN,
    signature: bytes = b"",
) -> bytes:
    """Make a file.

    :param sections: kind, name and contents of each.
    :param platform: for which it is made.
    :param interface: of the shell for which it is made.
    """
    start = _aligned(456 + 40 * len(sections))
    body = table = b""
    for kind, name, data in sections:
        position = start + len(body)
        table += struct.pack("<I16s4xQQ", kind, name, position, len(data))
        body += data.ljust(_aligned(len(data)), b"\0")
    header = b"xclbin2\0" + struct.pack("<i", len(signature) or -1)
    header += b"\xff" * 28 + bytes(256) + struct.pack("<Q", 1)
    header += struct.pack("<QQQHBBHH", start + len(body), 0, 0, 0, 2, 13, 0, 0)
    header += interface.bytes if interface else bytes(16)
    header += platform.encode().ljust(64, b"\0") + own.bytes + bytes(16)
    header += struct.pack("<I4x", len(sections))
    return (header + table).ljust(start, b"\0") + body + signature
