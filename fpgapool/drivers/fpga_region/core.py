# SPDX-License-Identifier: Apache-2.0

"""The contract of an operator's class that transfers data through a region."""

from __future__ import annotations

import abc
import collections.abc
import dataclasses
import pathlib
import pkgutil

from fpgapool.accelerators import base as accelerators
from fpgapool.vocabulary import codes


@dataclasses.dataclass(frozen=True, slots=True)
class Region:
    """A programmed region.

    :ivar node: device file of its port; None if it has none.
    """

    device: str
    slot: int
    accelerator: str
    directory: pathlib.Path
    node: pathlib.Path | None


class RegionCore(accelerators.Core):
    """One session's computation in a region.

    The kernel programs regions, but does not know their contents: a class of
    the operator's transfers the data, by a character device, UIO, VFIO, DMA
    buffers or OpenCL.

    :raises InvalidParams: if the accelerator does not accept them.
    """

    @abc.abstractmethod
    def __init__(
        self,
        params: collections.abc.Mapping[str, object],
        region: Region | None = None,
    ) -> None:
        pass

    @classmethod
    @abc.abstractmethod
    def clear(cls, region: Region) -> None:
        """Remove all data of a session from a region and its memory.

        Called after every session, also in another process than the one that
        had the core. May raise any exception; the slot is not used then.
        """


def load(path: str) -> type[RegionCore]:
    """Import an operator's class.

    :raises AcceleratorError: ``CORE_UNAVAILABLE``.
    """
    try:
        found = pkgutil.resolve_name(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise accelerators.AcceleratorError(
            codes.CORE_UNAVAILABLE, f"core {path!r}: {error}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, RegionCore)):
        raise accelerators.AcceleratorError(
            codes.CORE_UNAVAILABLE,
            f"core {path!r} is not a subclass of {RegionCore.__qualname__}",
        )
    return found
