# SPDX-License-Identifier: Apache-2.0

"""Payloads about bitstreams."""

import dataclasses
from collections.abc import Callable
from typing import Any

from fpgapool.objects import base
from fpgapool.vocabulary import formats


@dataclasses.dataclass(frozen=True, kw_only=True)
class BitstreamRef(base.Payload):
    """The file to program a slot with.

    :param signature: of the checksum, base64, for the agent to verify; empty
        without one.
    """

    bitstream_id: str
    checksum_sha256: str
    size_bytes: int
    format: str = formats.BINARY
    signature: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CreateBitstream(base.Payload):
    """Create a bitstream; its file is uploaded later.

    :param accelerator: plain name of the accelerator that it implements.
    :param checksum_sha256: expected checksum; empty if not set.
    """

    bitstream_id: str
    project_id: str
    user_id: str
    name: str
    description: str = ""
    accelerator: str
    version: str
    format: str = formats.BINARY
    public: bool = False
    shapes: tuple[str, ...] = ()
    profile: dict[str, Any] = dataclasses.field(default_factory=dict)
    properties: dict[str, Any] = dataclasses.field(default_factory=dict)
    checksum_sha256: str = ""
    signature: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class UploadBitstream(base.Payload):
    """The file is in the store and passed the checks.

    :param location: of the file, as the store names it.
    :param signed_by: name of the key that it was verified with.
    :param shapes: of the slots that it fits; empty means those that have the
        resources.
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
    """Change the members of a bitstream; None keeps a member."""

    bitstream_id: str
    name: str | None = None
    description: str | None = None
    public: bool | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecideBitstream(base.Payload):
    """Approve or reject a bitstream.

    :param force: also approve a bitstream that fits no slot of the pool.
    """

    bitstream_id: str
    approve: bool
    user_id: str
    reason: str = ""
    force: bool = False
    signed_by: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShareBitstream(base.Payload):
    """Grant a bitstream to another project, or withdraw the grant."""

    bitstream_id: str
    project_id: str
    shared: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeleteBitstream(base.Payload):
    """Delete a bitstream."""

    bitstream_id: str


BitstreamChange = (
    CreateBitstream
    | UploadBitstream
    | UpdateBitstream
    | DecideBitstream
    | ShareBitstream
    | DeleteBitstream
)

#: Builds any of the changes from its form; raises ValueError.
change_from_primitive: Callable[[object], BitstreamChange] = base.reader_of(
    BitstreamChange, "a change of a bitstream"
)
