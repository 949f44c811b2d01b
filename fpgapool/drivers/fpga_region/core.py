# SPDX-License-Identifier: Apache-2.0

"""The contract for operators' classes that transfer a region's data."""

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

    :ivar directory: the region's directory in sysfs.
    :ivar node: device file of its port; None if it has no port.
    """

    device: str
    slot: int
    accelerator: str
    directory: pathlib.Path
    node: pathlib.Path | None


class RegionCore(accelerators.Core):
    """One session's computation in a region.

    The kernel programs regions but does not know their contents, so the
    operator provides a class that transfers the data through a character
    device, UIO, VFIO, DMA buffers or OpenCL.

    :raises InvalidParams: if the accelerator does not accept the parameters.
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

        This is called after every session, possibly in a different process
        from the core's. If it raises an exception, the slot is no longer used.
        """


def load(path: str) -> type[RegionCore]:
    """Import an operator's class.

    :raises AcceleratorError: ``CORE_UNAVAILABLE``.
    """
    try:
        found = pkgutil.resolve_name(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise accelerators.AcceleratorError(
            codes.CORE_UNAVAILABLE, f"cannot load core {path!r}: {error}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, RegionCore)):
        raise accelerators.AcceleratorError(
            codes.CORE_UNAVAILABLE,
            f"core {path!r} is not a subclass of {RegionCore.__qualname__}",
        )
    return found
