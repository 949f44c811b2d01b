# SPDX-License-Identifier: Apache-2.0

"""Payloads about bitstreams."""

import dataclasses
from collections.abc import Callable
from typing import Any

from fpgapool.objects import base
from fpgapool.vocabulary import formats


@dataclasses.dataclass(frozen=True, kw_only=True)
class BitstreamRef(base.Payload):
    """The file with which a slot is programmed.

    :param signature: signature of the checksum in base64, which the agent
        verifies; empty if there is none.
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
    :param checksum_sha256: expected checksum; empty if none was given.
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
    """Report that the file is in the store and has passed the checks.

    :param location: the file's location, in the store's own format.
    :param signed_by: name of the key that verified the signature.
    :param shapes: shapes of the slots that it fits; empty means all with
        enough resources.
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
    """Change members of a bitstream; those that are None stay unchanged."""

    bitstream_id: str
    name: str | None = None
    description: str | None = None
    public: bool | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecideBitstream(base.Payload):
    """Approve or reject a bitstream.

    :param force: whether to approve a bitstream even if it fits no slot of the
        pool.
    """

    bitstream_id: str
    approve: bool
    user_id: str
    reason: str = ""
    force: bool = False
    signed_by: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShareBitstream(base.Payload):
    """Share a bitstream with another project, or stop sharing it."""

    bitstream_id: str
    project_id: str
    shared: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeleteBitstream(base.Payload):
    bitstream_id: str


BitstreamChange = (
    CreateBitstream
    | UploadBitstream
    | UpdateBitstream
    | DecideBitstream
    | ShareBitstream
    | DeleteBitstream
)

#: Builds any of the changes from its serialized form; raises ValueError.
change_from_primitive: Callable[[object], BitstreamChange] = base.reader_of(
    BitstreamChange, "a bitstream change"
)
