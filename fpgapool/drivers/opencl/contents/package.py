# SPDX-License-Identifier: Apache-2.0

"""Packages: the file format of OpenCL bitstreams.

Manifest and payload are in one file, so one checksum and one signature cover
both. The file begins with a little-endian header: the magic, u32 length of the
kind, u32 length of the manifest, u64 length of the payload. Kind, manifest and
payload follow, and nothing else. Tenants make packages, so nothing in them is
trusted.
"""

from __future__ import annotations

import dataclasses
import struct

from fpgapool.drivers import base
from fpgapool.drivers.opencl.contents import manifest as manifests
from fpgapool.drivers.opencl.contents import parts
from fpgapool.drivers.opencl.contents import xclbin as xclbins
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import formats

#: The first bytes of a package.
MAGIC = b"FPGAPKG1"
_HEADER = struct.Struct("<8sIIQ")
_MAX_NAME_BYTES = 32

#: Maximum size of a payload, for each kind.
MAX_PAYLOAD_BYTES = {
    formats.OPENCL_SOURCE: 1 << 20,
    formats.OPENCL_BINARY: 64 << 20,
    formats.XCLBIN: 1 << 30,
}
_MAX_FRONT_BYTES = _HEADER.size + _MAX_NAME_BYTES + manifests.MAX_SIZE_BYTES
#: Maximum size of a package, for each kind and for all kinds.
MAX_KIND_BYTES = {
    kind: _MAX_FRONT_BYTES + payload_bytes
    for kind, payload_bytes in MAX_PAYLOAD_BYTES.items()
}
MAX_SIZE_BYTES = max(MAX_KIND_BYTES.values())


class InvalidPackage(exceptions.CodedError, ValueError):
    """A file is not a valid package. The message gives the reason."""

    def __init__(self, message: str) -> None:
        super().__init__(codes.INVALID_PACKAGE, message)


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """A checked package without its payload.

    :ivar xclbin: contents of the payload; None if it is not an xclbin.
    """

    kind: str
    manifest: manifests.Manifest
    payload_bytes: int
    xclbin: xclbins.Xclbin | None


@dataclasses.dataclass(frozen=True, slots=True)
class Package(Summary):
    payload: bytes


def pack(kind: str, manifest: bytes, payload: bytes) -> bytes:
    """Make a package.

    :raises InvalidPackage: if the kind is unknown, or if the payload is empty,
        too long, or source code that is not text.
    :raises InvalidManifest: if the manifest is invalid.
    :raises XclbinError: if the payload is an invalid xclbin.
    """
    name = kind.encode()
    contents = b"".join(
        (
            _HEADER.pack(MAGIC, len(name), len(manifest), len(payload)),
            name,
            manifest,
            payload,
        )
    )
    unpack(contents)
    return contents


def unpack(contents: bytes) -> Package:
    """Read a package; see :func:`check`."""
    found = check(parts.Forward([contents], len(contents)))
    payload = contents[len(contents) - found.payload_bytes :]
    return Package(
        found.kind, found.manifest, found.payload_bytes, found.xclbin, payload
    )


def check(file: parts.Forward) -> Summary:
    """Check a package, keeping only small parts of it in memory.

    :raises InvalidPackage: if it is not a package, is too short or too long,
        its kind is unknown, or its payload is empty, too long, or source code
        that is not text.
    :raises InvalidManifest: if the manifest is invalid.
    :raises XclbinError: if the payload is an invalid xclbin, or lacks a kernel
        that the manifest names.
    """
    header = file.part(0, _HEADER.size)
    if len(header) < _HEADER.size or not header.startswith(MAGIC):
        raise InvalidPackage("not a package: wrong magic number")
    _, kind_bytes, manifest_bytes, payload_bytes = _HEADER.unpack(header)
    if kind_bytes > _MAX_NAME_BYTES:
        raise InvalidPackage(
            f"the kind is longer than {_MAX_NAME_BYTES} bytes"
        )
    if manifest_bytes > manifests.MAX_SIZE_BYTES:
        raise InvalidPackage(
            f"the manifest is {manifest_bytes} bytes, larger than the limit "
            f"of {manifests.MAX_SIZE_BYTES}"
        )
    kind_end = _HEADER.size + kind_bytes
    manifest_end = kind_end + manifest_bytes
    if file.size_bytes != manifest_end + payload_bytes:
        raise InvalidPackage(
            f"the file is {file.size_bytes} bytes, but according to its "
            f"header it is {manifest_end + payload_bytes} bytes"
        )
    name = file.part(_HEADER.size, kind_bytes)
    kind = name.decode("ascii", "replace")
    most_bytes = MAX_PAYLOAD_BYTES.get(kind)
    if most_bytes is None:
        raise InvalidPackage(
            f"unknown kind {kind!a:.80}; known kinds: "
            f"{', '.join(MAX_PAYLOAD_BYTES)}"
        )
    if not 0 < payload_bytes <= most_bytes:
        raise InvalidPackage(
            f"the payload is {payload_bytes} bytes; it must be from 1 to "
            f"{most_bytes}"
        )
    manifest = manifests.parse(file.part(kind_end, manifest_bytes))
    found = None
    if kind == formats.OPENCL_SOURCE:
        _check_source(file.part(manifest_end, payload_bytes))
    elif kind == formats.XCLBIN:
        found = xclbins.read(file, manifest_end)
        _check_kernels(manifest, found)
    return Summary(kind, manifest, payload_bytes, found)


def load(file: base.BitstreamFile) -> Package:
    """Read a package from the library.

    :raises DriverError: see :meth:`base.BitstreamFile.read`; or
        ``BITSTREAM_UNKNOWN`` if the file is not a package, or not in the
        format that the library recorded; or the code of :func:`unpack`.
    """
    if file.format not in MAX_KIND_BYTES:
        raise base.DriverError(
            codes.BITSTREAM_UNKNOWN,
            f"OpenCL devices do not accept format {file.format!r:.80};"
            f" accepted formats: {', '.join(MAX_KIND_BYTES)}",
        )
    contents = file.read(MAX_KIND_BYTES[file.format])
    try:
        package = unpack(contents)
    except exceptions.CodedError as error:
        raise base.DriverError(error.code, error.message) from None
    if package.kind != file.format:
        # Whether the library required a signature depended on its format.
        raise base.DriverError(
            codes.BITSTREAM_UNKNOWN,
            f"the file is in format {package.kind}, not {file.format}",
        )
    return package


def _check_source(payload: bytes) -> None:
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidPackage("the source is not UTF-8") from None
    # A compiler would ignore everything after a NUL.
    if "\0" in text:
        raise InvalidPackage("the source contains a NUL character")


def _check_kernels(
    manifest: manifests.Manifest, found: xclbins.Xclbin
) -> None:
    # Without metadata, only the device knows which kernels exist.
    missing = manifest.kernels().difference(found.kernels)
    if found.kernels and missing:
        raise xclbins.XclbinError(
            codes.INVALID_XCLBIN,
            "the xclbin lacks kernels that the manifest names: "
            f"{', '.join(sorted(missing)):.200}",
        )
