# SPDX-License-Identifier: Apache-2.0

"""Xclbins of one kernel, which the vendor's runtime loads and runs."""

from __future__ import annotations

import json
import struct
import typing

from tests.unit.drivers.opencl import xclbins

INSTANCES = ("copy_1", "copy_2")
#: The stand-in for a board has no name.
PLATFORM = ""

_BASE = 0x1800000
_SIZE = 0x10000


def _argument(number: int, name: str, kind: str) -> str:
    is_memory = kind.endswith("*")
    port = "m_axi_gmem" if is_memory else "s_axi_control"
    return (
        f'<arg name="{name}" addressQualifier="{int(is_memory)}" '
        f'id="{number}" port="{port}" size="0x8" '
        f'offset="{0x10 + 12 * number:#x}" hostOffset="0x0" hostSize="0x8" '
        f'type="{kind}"/>'
    )


def _metadata() -> bytes:
    arguments = "".join(
        _argument(number, *argument)
        for number, argument in enumerate(
            [("input", "uchar*"), ("output", "uchar*"), ("length", "ulong")]
        )
    )
    instances = "".join(
        f'<instance name="{name}"><addrRemap base="{_BASE + n * _SIZE:#x}" '
        f'range="{_SIZE:#x}" port="s_axi_control"/></instance>'
        for n, name in enumerate(INSTANCES)
    )
    return (
        '<project name="copy"><platform vendor="xilinx" boardid="u50" '
        'name="gen3x16_xdma" featureRomTime="0"><device name="fpga0">'
        '<core name="OCL_REGION_0" target="bitstream" type="clc_region" '
        'clockFreq="0MHz"><kernel name="copy" language="c" attributes="" '
        'hwControlProtocol="ap_ctrl_hs"><port name="s_axi_control" '
        'mode="slave" range="0x1000" dataWidth="32" portType="addressable" '
        'base="0x0"/><port name="m_axi_gmem" mode="master" '
        'range="0xFFFFFFFF" dataWidth="512" portType="addressable" '
        f'base="0x0"/>{arguments}{instances}</kernel></core></device>'
        "</platform></project>"
    ).encode()


def _sections() -> list[tuple[int, bytes, bytes]]:
    units = b"".join(
        struct.pack(
            "<IIQ64s", 1, 1, _BASE + n * _SIZE, f"copy:{name}".encode()
        )
        for n, name in enumerate(INSTANCES)
    )
    # Both arguments of each instance are in the only bank.
    connections = b"".join(
        struct.pack("<iii", argument, n, 0)
        for n in range(len(INSTANCES))
        for argument in (0, 1)
    )
    count = 2 * len(INSTANCES)
    bank = xclbins.memories(("bank0", 0x1000000, True))
    return [
        (xclbins.BITSTREAM, b"bitstream", bytes(64)),
        (xclbins.METADATA, b"embedded", _metadata()),
        (xclbins.MEMORY, b"memtopo", bank),
        (
            xclbins.CONNECTIVITY,
            b"conn",
            struct.pack("<i", count) + connections,
        ),
        (
            xclbins.KERNELS,
            b"ip",
            struct.pack("<i4x", len(INSTANCES)) + units,
        ),
    ]


def image(**members: typing.Any) -> bytes:
    """Make an xclbin.

    :param members: of the header; see :func:`xclbins.write`.
    """
    return xclbins.write(
        _sections(), **{"platform": PLATFORM, "interface": None, **members}
    )


def without_offsets() -> bytes:
    """Make one whose metadata the runtime cannot use."""
    return image().replace(b' offset="', b' offsot="')


def manifest(kernel: str = "copy", **step: typing.Any) -> bytes:
    """Make the manifest of the kernel.

    :param kernel: its name, with instances if they matter.
    :param step: other members of the step.
    """
    return json.dumps(
        {
            "format_version": 1,
            "name": "copy",
            "variants": [
                {
                    "block_bytes": 1,
                    "process": {
                        "output_bytes": "bytes",
                        "steps": [
                            {
                                "kernel": kernel,
                                "global": [1],
                                "local": [1],
                                "arguments": [
                                    "input",
                                    "output",
                                    {"ulong": "bytes"},
                                ],
                                **step,
                            }
                        ],
                    },
                }
            ],
        }
    ).encode()
