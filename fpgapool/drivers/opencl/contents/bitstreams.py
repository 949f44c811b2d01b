# SPDX-License-Identifier: Apache-2.0

"""Bitstreams that OpenCL devices can run."""

from __future__ import annotations

import dataclasses
import functools

from fpgapool.drivers import base
from fpgapool.drivers import common
from fpgapool.drivers.opencl import kernels
from fpgapool.drivers.opencl.contents import manifest as manifests
from fpgapool.drivers.opencl.contents import package as packages
from fpgapool.drivers.opencl.contents import profiles
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import formats
from fpgapool.vocabulary import names

#: Assumed rate of accelerators whose rate is unknown. It affects only how long
#: launches may take and how long pieces are.
UNKNOWN_BYTES_PER_S = 1e8


@dataclasses.dataclass(frozen=True, slots=True)
class Bitstream:
    """A bitstream to be programmed into a slot.

    :ivar code: OpenCL C, a device's binary, or an xclbin.
    """

    profile: base.Profile
    kind: str
    manifest: manifests.Manifest
    code: bytes


def load_builtin(bitstream: str) -> Bitstream:
    """Read a kernel that is part of fpgapool.

    :raises base.DriverError: ``BITSTREAM_UNKNOWN``.
    """
    name = bitstream.removeprefix(names.BUILTIN_PREFIX)
    if name == bitstream or name not in kernels.names():
        raise base.DriverError(
            codes.BITSTREAM_UNKNOWN,
            f"unknown OpenCL bitstream {bitstream!r:.80}; known bitstreams: "
            + ", ".join(
                f"{names.BUILTIN_PREFIX}{known}" for known in kernels.names()
            ),
        )
    profile = common.load_profile(name)
    return Bitstream(profile, formats.OPENCL_SOURCE, *_kernel(name))


def builtins() -> dict[str, dict[str, list[str]]]:
    """Return fpgapool's own kernels, as ``builtins`` of base.DeviceInfo."""
    return {
        name: {
            param: list(each.choices)
            for param, each in _kernel(name)[0].params.items()
            if each.choices
        }
        for name in kernels.names()
    }


@functools.cache
def _kernel(name: str) -> tuple[manifests.Manifest, bytes]:
    manifest, source = kernels.read(name)
    return manifests.parse(manifest), source


def load_file(file: base.BitstreamFile) -> Bitstream:
    """Read a bitstream from the library; see :func:`package.load`."""
    package = packages.load(file)
    said = profiles.members(package.manifest)
    profile = base.Profile(
        name=file.accelerator,
        description=said.get("description", ""),
        peak_bytes_per_s=said.get("peak_bytes_per_s", UNKNOWN_BYTES_PER_S),
        return_ratio=said.get("return_ratio", 1.0),
        stateless=said["stateless"],
        shapes=(),
        params_schema=said["params_schema"],
        # A tenant's accelerator has no software core with known answers.
        core="",
        chunk_multiple_bytes=said.get("chunk_multiple_bytes", 1),
    )
    return Bitstream(profile, package.kind, package.manifest, package.payload)
