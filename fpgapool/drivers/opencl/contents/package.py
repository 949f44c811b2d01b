# SPDX-License-Identifier: Apache-2.0

"""A package: the file of an OpenCL bitstream.

Manifest and payload are one file, so one checksum and one signature cover
both. The file begins with a header, little-endian: the magic, u32 length of
the kind, u32 length of the manifest, u64 length of the payload. Kind, manifest
and payload follow, and nothing after them. A tenant makes it, so nothing in it
is trusted.
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

#: A package begins with it.
MAGIC = b"FPGAPKG1"
_HEADER = struct.Struct("<8sIIQ")
_MAX_NAME_BYTES = 32

#: The largest payload of each kind.
MAX_PAYLOAD_BYTES = {
    formats.OPENCL_SOURCE: 1 << 20,
    formats.OPENCL_BINARY: 64 << 20,
    formats.XCLBIN: 1 << 30,
}
_MAX_FRONT_BYTES = _HEADER.size + _MAX_NAME_BYTES + manifests.MAX_SIZE_BYTES
#: The largest package of each kind, and of all.
MAX_KIND_BYTES = {
    kind: _MAX_FRONT_BYTES + payload_bytes
    for kind, payload_bytes in MAX_PAYLOAD_BYTES.items()
}
MAX_SIZE_BYTES = max(MAX_KIND_BYTES.values())


class InvalidPackage(exceptions.CodedError, ValueError):
    """A file is not a package. The message names the fault."""

    def __init__(self, message: str) -> None:
        super().__init__(codes.INVALID_PACKAGE, message)


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """A checked package without its payload.

    :ivar xclbin: the contents of the payload; None if it is no xclbin.
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

    :raises InvalidPackage: if the kind is unknown, or the payload is empty,
        too long, or a source that is not a text.
    :raises InvalidManifest: if the manifest is wrong.
    :raises XclbinError: if the payload is a wrong xclbin.
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
    """Read a package.

    :raises: as :func:`check`.
    """
    found = check(parts.Forward([contents], len(contents)))
    payload = contents[len(contents) - found.payload_bytes :]
    return Package(
        found.kind, found.manifest, found.payload_bytes, found.xclbin, payload
    )


def check(file: parts.Forward) -> Summary:
    """Check a package, of which only small parts are in memory.

    :raises InvalidPackage: if it is no package, ends too early or too late,
        its kind is unknown, or its payload is empty, too long, or a source
        that is not a text.
    :raises InvalidManifest: if the manifest is wrong.
    :raises XclbinError: if the payload is a wrong xclbin, or lacks a kernel of
        the manifest.
    """
    header = file.part(0, _HEADER.size)
    if len(header) < _HEADER.size or not header.startswith(MAGIC):
        raise InvalidPackage("not a package: wrong magic number")
    _, kind_bytes, manifest_bytes, payload_bytes = _HEADER.unpack(header)
    if kind_bytes > _MAX_NAME_BYTES:
        raise InvalidPackage(
            f"its kind is longer than {_MAX_NAME_BYTES} bytes"
        )
    if manifest_bytes > manifests.MAX_SIZE_BYTES:
        raise InvalidPackage(
            f"its manifest is {manifest_bytes} bytes, larger than the limit "
            f"of {manifests.MAX_SIZE_BYTES}"
        )
    kind_end = _HEADER.size + kind_bytes
    manifest_end = kind_end + manifest_bytes
    if file.size_bytes != manifest_end + payload_bytes:
        raise InvalidPackage(
            f"the file is {file.size_bytes} bytes, but its header says "
            f"{manifest_end + payload_bytes}"
        )
    name = file.part(_HEADER.size, kind_bytes)
    kind = name.decode("ascii", "replace")
    most_bytes = MAX_PAYLOAD_BYTES.get(kind)
    if most_bytes is None:
        raise InvalidPackage(
            f"unknown kind {kind!a:.80}; there are: "
            f"{', '.join(MAX_PAYLOAD_BYTES)}"
        )
    if not 0 < payload_bytes <= most_bytes:
        raise InvalidPackage(
            f"its payload is {payload_bytes} bytes; 1 to {most_bytes} are "
            "allowed"
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
    """Read a package of the library.

    :raises DriverError: as :meth:`base.BitstreamFile.read`; or
        ``BITSTREAM_UNKNOWN`` if the file has another format than a package,
        or than the library says; or the code of :func:`unpack`.
    """
    if file.format not in MAX_KIND_BYTES:
        raise base.DriverError(
            codes.BITSTREAM_UNKNOWN,
            "OpenCL devices accept bitstreams of the formats "
            f"{', '.join(MAX_KIND_BYTES)}, not {file.format!r:.80}",
        )
    contents = file.read(MAX_KIND_BYTES[file.format])
    try:
        package = unpack(contents)
    except exceptions.CodedError as error:
        raise base.DriverError(error.code, error.message) from None
    if package.kind != file.format:
        # The format decides whether a signature was required.
        raise base.DriverError(
            codes.BITSTREAM_UNKNOWN,
            f"the file's kind is {package.kind}, not {file.format}",
        )
    return package


def _check_source(payload: bytes) -> None:
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidPackage("its source is not UTF-8") from None
    # A compiler takes it for the end, and the rest would be hidden from it.
    if "\0" in text:
        raise InvalidPackage("its source contains a NUL character")


def _check_kernels(
    manifest: manifests.Manifest, found: xclbins.Xclbin
) -> None:
    # Without metadata only the device can tell.
    missing = manifest.kernels().difference(found.kernels)
    if found.kernels and missing:
        raise xclbins.XclbinError(
            codes.INVALID_XCLBIN,
            "the xclbin lacks kernels of the manifest: "
            f"{', '.join(sorted(missing)):.200}",
        )
