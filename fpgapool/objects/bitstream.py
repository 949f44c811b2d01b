# SPDX-License-Identifier: Apache-2.0

"""Payloads about bitstreams."""

import dataclasses
import typing
from typing import Any

from fpgapool.objects import base

#: What is in the file: something for a board, or a description that the
#: emulator reads (:mod:`fpgapool.objects.declaration`).
BINARY = "binary"
DECLARATION = "declaration"
FORMATS = (BINARY, DECLARATION)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BitstreamRef(base.Payload):
    """The file that a slot is to be programmed with.

    :param checksum_sha256: of the whole file, hexadecimal.
    :param format: one of :data:`FORMATS`.
    :param signature: of the checksum, base64, for the agent to verify; empty
        without one.
    """

    bitstream_id: str
    checksum_sha256: str
    size_bytes: int
    format: str = BINARY
    signature: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CreateBitstream(base.Payload):
    """Take in a bitstream, whose file is still to come.

    :param project_id: whose it is to be.
    :param accelerator: what it implements, by its plain name.
    :param public: for all projects.
    :param profile: members of an :class:`AcceleratorProfile`.
    :param checksum_sha256: what it must be; empty if nobody has said.
    """

    bitstream_id: str
    project_id: str
    user_id: str
    name: str
    description: str = ""
    accelerator: str
    version: str
    format: str = BINARY
    public: bool = False
    shapes: tuple[str, ...] = ()
    profile: dict[str, Any] = dataclasses.field(default_factory=dict)
    properties: dict[str, Any] = dataclasses.field(default_factory=dict)
    checksum_sha256: str = ""
    signature: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class UploadBitstream(base.Payload):
    """The file is in the store, and in order.

    :param location: of the file, in the store's words.
    :param signed_by: name of the key that it was verified with.
    :param shapes: of the slots that it fits; empty means those that have the
        resources.
    :param resources: that it takes of a slot, as far as it says.
    """

    bitstream_id: str
    checksum_sha256: str
    size_bytes: int
    location: str
    signed_by: str = ""
    shapes: tuple[str, ...]
    profile: dict[str, Any]
    resources: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class UpdateBitstream(base.Payload):
    """Change what is said of a bitstream; None leaves it as it is."""

    bitstream_id: str
    name: str | None = None
    description: str | None = None
    public: bool | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecideBitstream(base.Payload):
    """Approve or reject a bitstream.

    :param force: approve one that fits no slot of the pool, too.
    :param signed_by: name of the key that the signature was verified with.
    """

    bitstream_id: str
    approve: bool
    user_id: str
    reason: str = ""
    force: bool = False
    signed_by: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShareBitstream(base.Payload):
    """Let another project use a bitstream, or let it no more."""

    bitstream_id: str
    project_id: str
    shared: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeleteBitstream(base.Payload):
    """Forget a bitstream."""

    bitstream_id: str


BitstreamChange = (
    CreateBitstream
    | UploadBitstream
    | UpdateBitstream
    | DecideBitstream
    | ShareBitstream
    | DeleteBitstream
)

_CHANGES: dict[object, type[BitstreamChange]] = {
    change.__name__: change for change in typing.get_args(BitstreamChange)
}


def change_from_primitive(primitive: object) -> BitstreamChange:
    """Build any of the changes from its form.

    :raises: ValueError if it is none of them, or has a wrong member.
    """
    name = primitive.get(base.NAME_KEY) if isinstance(primitive, dict) else ""
    change = _CHANGES.get(name if isinstance(name, str) else "")
    if change is None:
        raise ValueError("not a change of a bitstream")
    return change.from_primitive(primitive)
