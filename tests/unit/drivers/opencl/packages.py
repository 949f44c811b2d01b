# SPDX-License-Identifier: Apache-2.0

"""Packages of a small kernel."""

from __future__ import annotations

import json
from typing import Any

from fpgapool.drivers.opencl.contents import package

SOURCE = b"""kernel void add(global const uchar *input, global uchar *output,
                const uint amount, const ulong length)
{
    const size_t i = get_global_id(0);

    if (i < length)
        output[i] = input[i] + amount;
}
"""
#: The first bytes of no binary in particular.
BINARY = b"\x7fELF\0"


def manifest(kernel: str = "add", **members: Any) -> bytes:
    """Make a manifest."""
    step = {
        "kernel": kernel,
        "global": ["bytes"],
        "local": [64],
        "arguments": ["input", "output", {"uint": "amount"}],
    }
    step["arguments"].append({"ulong": "bytes"})  # type: ignore[attr-defined]
    document = {
        "format_version": 1,
        "name": "mine",
        "description": "Adds to each byte",
        "params": {"amount": {"type": "uint", "maximum": 255}},
        "peak_bytes_per_s": 5e8,
        "variants": [
            {
                "block_bytes": 4,
                "process": {"output_bytes": "bytes", "steps": [step]},
            }
        ],
        **members,
    }
    return json.dumps(document).encode()


def source(**members: Any) -> bytes:
    """Make a package of the source.

    :param members: of the manifest, others than usual.
    """
    return package.pack("opencl-source", manifest(**members), SOURCE)
