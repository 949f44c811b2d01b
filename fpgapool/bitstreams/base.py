# SPDX-License-Identifier: Apache-2.0

"""The interface of a store of files."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Self

if TYPE_CHECKING:
    # Agents use stores without a database.
    from fpgapool.db import api as db_api

#: Bytes of a file that are in memory at a time.
CHUNK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """A store's metadata of a file, for the store's operator.

    :ivar properties: the owner's metadata, by the names of Cyborg.
    """

    bitstream_id: str
    name: str
    project_id: str
    accelerator: str
    version: str
    description: str = ""
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, record: db_api.BitstreamRecord) -> Self:
        """Return the metadata of a bitstream's file."""
        return cls(
            bitstream_id=record.bitstream_id,
            name=record.name,
            project_id=record.project_id,
            accelerator=record.accelerator,
            version=record.version,
            description=record.description,
            properties=record.properties,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A file in a store."""

    location: str
    age_s: float


class Incoming(abc.ABC, Iterable[bytes]):
    """A file being uploaded; its parts can be read once, in order.

    If the iteration raises an exception, nothing must be stored.
    """

    @property
    @abc.abstractmethod
    def length_bytes(self) -> int | None:
        """The length that its sender has announced; None if it has not."""

    @property
    @abc.abstractmethod
    def checksum_sha256(self) -> str:
        """SHA-256 of the data that was read, hexadecimal."""


class Store(abc.ABC):
    """Keeps files; thread-safe.

    All methods block. They raise StoreUnavailable if repeating may help,
    else StoreFailed.
    """

    @abc.abstractmethod
    def write(self, about: About, incoming: Incoming) -> str:
        """Store a file; it is durable when this returns.

        Exceptions of the incoming file's iteration are raised unchanged, and
        leave nothing behind.
        """

    @abc.abstractmethod
    def read(self, location: str) -> Iterator[bytes]:
        """Return the parts of a file.

        Errors that can be found before the first part, are.
        """

    @abc.abstractmethod
    def delete(self, location: str) -> None:
        """Delete a file; it may be missing."""

    @abc.abstractmethod
    def files(self) -> Iterator[Found]:
        """Yield all files, also those that belong to no bitstream."""
