# SPDX-License-Identifier: Apache-2.0

"""Reads the description of an accelerator from its bitstream's file.

Files in a board vendor's own format contain no such description.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from fpgapool.bitstreams import library
from fpgapool.common import exception
from fpgapool.db import api as db_api
from fpgapool.drivers.opencl import devices
from fpgapool.drivers.opencl.contents import package
from fpgapool.drivers.opencl.contents import parts
from fpgapool.drivers.opencl.contents import profiles
from fpgapool.objects import declaration
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import formats

#: Maximum size of a file, for each format that is read here.
MAX_SIZE_BYTES: Mapping[str, int] = {
    formats.DECLARATION: declaration.MAX_SIZE_BYTES,
    **package.MAX_KIND_BYTES,
}

_MAX_TEXT_CHARS = 500
# OpenCL platform name of AMD's runtime. The shapes of slots on AMD boards
# begin with it, unless a host's operator sets other shapes.
_XILINX = "Xilinx"


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """A file's accelerator description, completed from its owner's."""

    profile: dict[str, Any]
    shapes: tuple[str, ...]
    resources: dict[str, int] = dataclasses.field(default_factory=dict)


def read(
    record: db_api.BitstreamRecord, pieces: Iterable[bytes], size_bytes: int
) -> Contents:
    """Read a file in one of the formats in :data:`MAX_SIZE_BYTES`.

    :raises BitstreamRefused: if the file is invalid, or contradicts the
        owner's description.
    :raises StoreFailed: if the pieces end too early.
    """
    file = parts.Forward(pieces, size_bytes)
    try:
        if record.format == formats.DECLARATION:
            # One byte more than allowed makes parse() reject longer files.
            data = file.part(0, declaration.MAX_SIZE_BYTES + 1)
            return _declared(record, data)
        return _packaged(record, file)
    except EOFError as error:
        raise exception.StoreFailed(
            reason=f"the stored file is truncated: {size_bytes} bytes"
            f" expected; {error}"
        ) from error


def _declared(record: db_api.BitstreamRecord, data: bytes) -> Contents:
    code = codes.INVALID_DECLARATION
    try:
        declared = declaration.parse(data)
    except ValueError as error:
        raise _refused(code, str(error)) from error
    found = declared.profile()
    said = {name: getattr(found, name) for name in library.PROFILE_DEFAULTS}
    _compare(record, declared.name, said, code)
    return Contents(said, tuple(record.shapes), declared.resources)


def _packaged(record: db_api.BitstreamRecord, file: parts.Forward) -> Contents:
    try:
        found = package.check(file)
    except exceptions.CodedError as error:
        raise _refused(error.code, error.message) from error
    if found.kind != record.format:
        raise _refused(
            codes.INVALID_PACKAGE,
            f"the file is in format {found.kind}, not {record.format}",
        )
    said = profiles.members(found.manifest)
    _compare(record, found.manifest.name, said, codes.INVALID_MANIFEST)
    shapes = tuple(record.shapes)
    if found.xclbin:
        shapes = _of_platform(shapes, found.xclbin.platform)
    return Contents({**record.profile, **said}, shapes)


def _compare(
    record: db_api.BitstreamRecord,
    name: str,
    said: Mapping[str, Any],
    code: str,
) -> None:
    if name != record.accelerator:
        raise _refused(
            code,
            f"the file implements {name}, not {record.accelerator}",
        )
    for member, value in record.profile.items():
        if member in said and said[member] != value:
            raise _refused(
                code, f"profile.{member} differs from the value in the file"
            )


def _of_platform(shapes: tuple[str, ...], platform: str) -> tuple[str, ...]:
    own = devices.sanitised(f"{_XILINX} {platform}")
    for shape in shapes:
        if shape.startswith(f"{_XILINX}-") and shape != own:
            raise _refused(
                codes.XCLBIN_OTHER_PLATFORM,
                f"the xclbin is for platform {platform!r}, whose slots have "
                f"shape {own}, not {shape:.200}",
            )
    return shapes or (own,)


def _refused(code: str, text: str) -> exception.BitstreamRefused:
    return exception.BitstreamRefused(text[:_MAX_TEXT_CHARS], code=code)
