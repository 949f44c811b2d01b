# SPDX-License-Identifier: Apache-2.0

"""What a store of files can do."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

#: How much of a file is in memory at a time.
CHUNK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a store may tell its own operator of a file.

    :ivar properties: what its owner says of it, by the names of Cyborg.
    """

    bitstream_id: str
    name: str
    project_id: str
    accelerator: str
    version: str
    description: str = ""
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A file that is in a store.

    :ivar location: in the store's words.
    :ivar age_s: since it was written.
    """

    location: str
    age_s: float


class Incoming(abc.ABC, Iterable[bytes]):
    """A file that is being sent; its parts can be had once, in order.

    An exception out of the iteration means that nothing must be kept.
    """

    @property
    @abc.abstractmethod
    def length_bytes(self) -> int | None:
        """How long it says that it is; None if it does not."""

    @property
    @abc.abstractmethod
    def checksum_sha256(self) -> str:
        """Of what was read, hexadecimal."""


class Store(abc.ABC):
    """Keeps files. Safe to use from several threads.

    All methods block. They raise StoreUnavailable if repeating may help,
    else StoreFailed.
    """

    @abc.abstractmethod
    def write(self, about: About, incoming: Incoming) -> str:
        """Keep a file; it is durable when this returns.

        What the incoming file's iteration raises passes through, and leaves
        nothing behind.

        :returns: its location.
        """

    @abc.abstractmethod
    def read(self, location: str) -> Iterator[bytes]:
        """Return the parts of a file.

        What can be found out before the first part, is.
        """

    @abc.abstractmethod
    def delete(self, location: str) -> None:
        """Keep a file no longer; one that is not there is fine."""

    @abc.abstractmethod
    def files(self) -> Iterator[Found]:
        """Yield all files, those that nobody knows of, too."""
