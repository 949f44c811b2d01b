# SPDX-License-Identifier: Apache-2.0

"""The interface of a store of files."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fpgapool.bitstreams import intake

if TYPE_CHECKING:
    # Agents use stores without a database.
    from fpgapool.db import api as db_api

#: Bytes of a file that are in memory at a time.
CHUNK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A file in a store."""

    location: str
    age_s: float


class Store(abc.ABC):
    """Keeps files; thread-safe.

    All methods block. They raise StoreUnavailable if repeating may help,
    else StoreFailed.
    """

    @abc.abstractmethod
    def write(
        self, record: db_api.BitstreamRecord, incoming: intake.Intake
    ) -> str:
        """Store a bitstream's file; it is durable when this returns.

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
