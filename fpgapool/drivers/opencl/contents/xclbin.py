# SPDX-License-Identifier: Apache-2.0

"""Reads xclbin files, which program AMD/Xilinx boards.

A tenant may have made the file, so nothing in it is trusted: all offsets and
lengths are checked before use, and its XML has a limited size and no entities.
Only what decides whether a board can use the file is read here; the board's
driver handles the bitstream itself.

The format (``struct axlf`` of XRT) is little-endian: a header of 456 bytes, a
table with 40 bytes for each section, and the sections.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import itertools
import struct
import typing
import uuid
from xml.parsers import expat

from fpgapool.drivers.opencl.contents import parts
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions

MAX_SECTIONS = 256
MAX_METADATA_BYTES = 4 << 20
MAX_XML_ELEMENTS = 100_000
MAX_XML_DEPTH = 32
MAX_KERNELS = 256
MAX_BANKS = 1024

#: Kinds of sections that are read, or that may occur only once.
BITSTREAM = 0
EMBEDDED_METADATA = 2
MEM_TOPOLOGY = 6

_MAGIC = b"xclbin2\0"
# Magic, length of the signature, reserved, key block, unique ID.
_FRONT = struct.Struct("<8si28s256sQ")
# Length, two timestamps, version (patch, major, minor), mode, actions, UUID of
# the shell's interface, platform, UUID, debug file, number of sections.
_HEADER = struct.Struct("<QQQHBBHH16s64s16s16sI4x")
_SECTION = struct.Struct("<I16s4xQQ")
_BANK_COUNT = struct.Struct("<i4x")
_BANK_BYTES = 40

HEADER_BYTES = _FRONT.size + _HEADER.size
SECTION_HEADER_BYTES = _SECTION.size

_MAX_TEXT_CHARS = 256
# Path of kernel elements from the root of the XML document.
_KERNEL_PATH = ("project", "platform", "device", "core", "kernel")


class XclbinError(exceptions.CodedError, ValueError):
    """An xclbin cannot be used.

    The code is ``INVALID_XCLBIN``, ``XCLBIN_TRUNCATED``,
    ``XCLBIN_OTHER_PLATFORM`` or ``XCLBIN_OTHER_SHELL``.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class Section:
    """A part of the file.

    :ivar kind: one of XRT's ``enum axlf_section_kind``.
    """

    kind: int
    name: str
    offset_bytes: int
    size_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Xclbin:
    """A checked file.

    :ivar platform: platform of the boards for which it was made: vendor,
        board, name and version, such as
        ``xilinx_u250_gen3x16_xdma_shell_4_1``.
    :ivar interface_uuid: UUID of their shell's interface; None if the file
        does not name it, as for single-stage platforms.
    :ivar kernels: names of the kernels; empty if there is no metadata.
    """

    platform: str
    interface_uuid: uuid.UUID | None
    sections: tuple[Section, ...]
    kernels: tuple[str, ...]

    def check_fits(
        self, platform: str, interface_uuid: uuid.UUID | None
    ) -> None:
        """Check that the file was made for a board.

        :param interface_uuid: interface of the board's shell; None: none.
        :raises XclbinError: ``XCLBIN_OTHER_PLATFORM``, or
            ``XCLBIN_OTHER_SHELL`` if the platform's name matches but the
            interface does not.
        """
        if self.platform != platform:
            raise XclbinError(
                codes.XCLBIN_OTHER_PLATFORM,
                f"the xclbin is for platform {self.platform!r}; the board has "
                f"platform {platform!r}",
            )
        if self.interface_uuid != interface_uuid:
            raise XclbinError(
                codes.XCLBIN_OTHER_SHELL,
                "the xclbin is for a shell with interface "
                f"{self.interface_uuid}; the board's shell has interface "
                f"{interface_uuid}",
            )


def parse(data: bytes) -> Xclbin:
    """Read a file in memory; see :func:`read`."""
    return read(parts.Forward([data], len(data)), 0)


def read(file: parts.Forward, start_bytes: int) -> Xclbin:
    """Read an xclbin, keeping only small parts of it in memory.

    :raises XclbinError: ``XCLBIN_TRUNCATED`` if it ends too early,
        ``INVALID_XCLBIN`` if it is otherwise invalid.
    """
    front = file.part(start_bytes, HEADER_BYTES)
    if not front.startswith(_MAGIC[: len(front)]):
        raise _invalid("not an xclbin: wrong magic number")
    if len(front) < HEADER_BYTES:
        raise _truncated(HEADER_BYTES, len(front))
    size_bytes = file.size_bytes - start_bytes
    _, signature_bytes, *_ = _FRONT.unpack_from(front)
    header = _HEADER.unpack_from(front, _FRONT.size)
    length_bytes, _, _, _, major, _, _, _ = header[:8]
    interface, platform, _, _, section_count = header[8:]
    if length_bytes > size_bytes:
        raise _truncated(length_bytes, size_bytes)
    if length_bytes < HEADER_BYTES:
        raise _invalid("the length in the header is too small for a header")
    # Only the signature may follow the sections.
    rest_bytes = size_bytes - length_bytes
    if rest_bytes not in (0, signature_bytes):
        raise _invalid(
            f"the file is {rest_bytes} bytes longer than its header states"
        )
    if major != 2:
        raise _invalid(f"unknown version {major}; version 2 is supported")
    sections = _sections(file, start_bytes, length_bytes, section_count)
    metadata = _only(sections, EMBEDDED_METADATA)
    topology = _only(sections, MEM_TOPOLOGY)
    _only(sections, BITSTREAM)
    if metadata and metadata.size_bytes > MAX_METADATA_BYTES:
        raise _invalid(
            f"the metadata is {metadata.size_bytes} bytes, larger than the "
            f"limit of {MAX_METADATA_BYTES}"
        )
    contents = {}
    for section in sorted(
        filter(None, (metadata, topology)), key=lambda one: one.offset_bytes
    ):
        contents[section.kind] = file.part(
            start_bytes + section.offset_bytes,
            min(section.size_bytes, MAX_METADATA_BYTES),
        )
    if topology:
        _check_topology(contents[topology.kind])
    return Xclbin(
        platform=_text(platform, "the platform"),
        interface_uuid=uuid.UUID(bytes=interface) if any(interface) else None,
        sections=sections,
        kernels=_kernels(contents[metadata.kind]) if metadata else (),
    )


def _sections(
    file: parts.Forward, start_bytes: int, length_bytes: int, count: int
) -> tuple[Section, ...]:
    if not 1 <= count <= MAX_SECTIONS:
        raise _invalid(
            f"the file has {count} sections, not from 1 to {MAX_SECTIONS}"
        )
    table_end = HEADER_BYTES + count * SECTION_HEADER_BYTES
    if table_end > length_bytes:
        raise _truncated(table_end, length_bytes)
    found = []
    table = file.part(start_bytes + HEADER_BYTES, table_end - HEADER_BYTES)
    for kind, name, offset, size in _SECTION.iter_unpack(table):
        section = Section(kind, _text(name, "a section's name"), offset, size)
        if size and offset < table_end:
            raise _invalid(f"section {section.name!r} overlaps the header")
        if size and offset + size > length_bytes:
            raise _truncated(offset + size, length_bytes)
        found.append(section)
    ordered = sorted(
        (section for section in found if section.size_bytes),
        key=lambda section: section.offset_bytes,
    )
    for first, second in itertools.pairwise(ordered):
        if first.offset_bytes + first.size_bytes > second.offset_bytes:
            raise _invalid(
                f"sections {first.name!r} and {second.name!r} overlap"
            )
    return tuple(found)


def _only(
    sections: collections.abc.Iterable[Section], kind: int
) -> Section | None:
    found = [section for section in sections if section.kind == kind]
    if len(found) > 1:
        raise _invalid(
            f"{len(found)} sections have kind {kind}; only one is allowed"
        )
    return found[0] if found else None


def _check_topology(data: bytes) -> None:
    """Check that the list of memories fits in its section."""
    if len(data) < _BANK_COUNT.size:
        raise _invalid("the memory topology is too short")
    (count,) = _BANK_COUNT.unpack_from(data)
    if not 0 <= count <= MAX_BANKS:
        raise _invalid(
            f"the file lists {count} memories; at most {MAX_BANKS} are allowed"
        )
    if _BANK_COUNT.size + count * _BANK_BYTES > len(data):
        raise _invalid("the memory topology is too short")


def _kernels(xml: bytes) -> tuple[str, ...]:
    reader = _Metadata()
    # Ignore the declared encoding, so that only one decoder is exposed.
    parser = expat.ParserCreate("UTF-8")
    parser.StartDoctypeDeclHandler = reader.refuse
    parser.EntityDeclHandler = reader.refuse
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    try:
        parser.Parse(xml.rstrip(b"\0"), True)
    except expat.ExpatError as error:
        raise _invalid(f"the metadata is not XML: {error}") from None
    return tuple(reader.kernels)


class _Metadata:
    """Collects the names of the kernels in the XML metadata."""

    def __init__(self) -> None:
        self.kernels: list[str] = []
        self._path: list[str] = []
        self._elements = 0

    def refuse(self, *_: object) -> typing.NoReturn:
        raise _invalid("the metadata declares a document type")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._path.append(tag)
        self._elements += 1
        if len(self._path) > MAX_XML_DEPTH:
            raise _invalid(
                f"the metadata is nested more than {MAX_XML_DEPTH} levels deep"
            )
        if self._elements > MAX_XML_ELEMENTS:
            raise _invalid(
                f"the metadata has more than {MAX_XML_ELEMENTS} elements"
            )
        if tuple(self._path) != _KERNEL_PATH:
            return
        if len(self.kernels) == MAX_KERNELS:
            raise _invalid(f"the metadata has more than {MAX_KERNELS} kernels")
        name = attributes.get("name", "")
        if not 0 < len(name) <= _MAX_TEXT_CHARS or not name.isprintable():
            raise _invalid(
                "a kernel name in the metadata must be from 1 to "
                f"{_MAX_TEXT_CHARS} printable characters"
            )
        self.kernels.append(name)

    def end(self, _: str) -> None:
        self._path.pop()


def _text(field: bytes, what: str) -> str:
    """Decode a string that ends at the first NUL or the field's end."""
    text = field.partition(b"\0")[0]
    if not text.isascii() or not text.decode("ascii").isprintable():
        raise _invalid(f"{what} is not printable ASCII")
    return text.decode("ascii")


def _invalid(message: str) -> XclbinError:
    return XclbinError(codes.INVALID_XCLBIN, message)


def _truncated(needed_bytes: int, there_bytes: int) -> XclbinError:
    return XclbinError(
        codes.XCLBIN_TRUNCATED,
        f"the file is truncated: {there_bytes} of {needed_bytes} bytes",
    )
