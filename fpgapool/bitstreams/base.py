# SPDX-License-Identifier: Apache-2.0

"""The interface of stores of bitstream files."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fpgapool.bitstreams import intake

if TYPE_CHECKING:
    # Agents use stores without a database.
    from fpgapool.db import api as db_api

#: Number of bytes of a file that are read into memory at once.
CHUNK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A file in a store."""

    location: str
    age_s: float


class Store(abc.ABC):
    """Stores files; thread-safe.

    All methods block. They raise StoreUnavailable if a retry may help,
    StoreFailed otherwise.
    """

    @abc.abstractmethod
    def write(
        self, record: db_api.BitstreamRecord, incoming: intake.Intake
    ) -> str:
        """Store a bitstream's file durably, and return its location.

        If iterating over the incoming file raises an exception, nothing is
        stored and the exception is raised unchanged.
        """

    @abc.abstractmethod
    def read(self, location: str) -> Iterator[bytes]:
        """Return the parts of a file; whoever stops early calls ``close()``.

        If possible, errors such as a missing file are raised at once, not
        during the iteration.
        """

    @abc.abstractmethod
    def delete(self, location: str) -> None:
        """Delete a file, if it exists."""

    @abc.abstractmethod
    def files(self) -> Iterator[Found]:
        """Yield all files, including those that belong to no bitstream."""
