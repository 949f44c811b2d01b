# SPDX-License-Identifier: Apache-2.0

"""The bitstreams of OpenCL devices."""

from __future__ import annotations

import dataclasses
import functools

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers import base
from fpgapool.drivers.opencl import kernels
from fpgapool.drivers.opencl import manifest as manifests
from fpgapool.drivers.opencl import package as packages
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import formats
from fpgapool.vocabulary import names

#: Of accelerators whose rate is not known: it only says how long a launch may
#: take, and how long pieces are.
UNKNOWN_BYTES_PER_S = 1e8


@dataclasses.dataclass(frozen=True, slots=True)
class Bitstream:
    """What goes into a slot.

    :ivar profile: of the accelerator.
    :ivar kind: of the code, one of :data:`formats.PACKAGES`.
    :ivar manifest: says how its kernels are called.
    :ivar code: OpenCL C, a device's binary, or an xclbin.
    """

    profile: base.Profile
    kind: str
    manifest: manifests.Manifest
    code: bytes


def load_builtin(bitstream: str) -> Bitstream:
    """Read a kernel that comes with fpgapool.

    :param bitstream: its name, behind :data:`names.BUILTIN_PREFIX`.
    :returns: it, with the profile of this host.
    :raises base.DriverError: ``BITSTREAM_UNKNOWN``.
    """
    name = bitstream.removeprefix(names.BUILTIN_PREFIX)
    if name == bitstream or name not in kernels.names():
        raise base.DriverError(
            base.BITSTREAM_UNKNOWN,
            f"{bitstream!r:.80} has no OpenCL kernel; there are: "
            + ", ".join(
                f"{names.BUILTIN_PREFIX}{known}" for known in kernels.names()
            ),
        )
    try:
        profile = accelerators.load_profile(name)
    except accelerators.AcceleratorError as exc:
        raise base.DriverError(base.BITSTREAM_UNKNOWN, exc.message) from exc
    return Bitstream(profile, formats.OPENCL_SOURCE, *_kernel(name))


@functools.cache
def _kernel(name: str) -> tuple[manifests.Manifest, bytes]:
    manifest, source = kernels.read(name)
    return manifests.parse(manifest), source


def load_file(file: base.BitstreamFile) -> Bitstream:
    """Read a bitstream of the library.

    :param file: a package.
    :returns: it, with a profile made of its manifest.
    :raises base.DriverError: ``BITSTREAM_UNKNOWN`` if it is no package,
        ``BITSTREAM_DAMAGED``, or the code of what is wrong in the package.
    """
    if file.format not in formats.PACKAGES:
        raise base.DriverError(
            base.BITSTREAM_UNKNOWN,
            "OpenCL devices accept bitstreams of the formats "
            f"{', '.join(formats.PACKAGES)}, not {file.format!r:.80}",
        )
    contents = file.read(packages.MAX_SIZE_BYTES)
    try:
        package = packages.unpack(contents)
    except exceptions.CodedError as exc:
        raise base.DriverError(exc.code, exc.message) from exc
    return Bitstream(
        _profile(file.accelerator, package.manifest),
        package.kind,
        package.manifest,
        package.payload,
    )


def _profile(accelerator: str, manifest: manifests.Manifest) -> base.Profile:
    return base.Profile(
        name=accelerator,
        description=manifest.description,
        peak_bytes_per_s=UNKNOWN_BYTES_PER_S,
        return_ratio=1.0,
        # Without state the position of a piece says all about it.
        stateless=not any(variant.state for variant in manifest.variants),
        shapes=(),
        params_schema={},
        core=manifest.name,
        # A session asks for whole blocks.
        chunk_multiple_bytes=1,
    )
