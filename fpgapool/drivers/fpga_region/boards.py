# SPDX-License-Identifier: Apache-2.0

"""The file that describes a host's FPGAs."""

from __future__ import annotations

import dataclasses
import os

from fpgapool.drivers import base
from fpgapool.drivers import documents
from fpgapool.vocabulary import names
from fpgapool.vocabulary import shapes

MAX_BOARDS = 64
MAX_REGIONS = 64
MAX_ACCELERATORS = 256


@dataclasses.dataclass(frozen=True, slots=True)
class RegionEntry:
    """A region, which is a slot.

    :ivar port: its DFL port; None on boards with an FPGA manager.
    :ivar devices: other device files that its cores open, or patterns.
    """

    region: str
    shape: str
    port: str | None = None
    devices: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Implementation:
    """How a board's regions implement an accelerator.

    :ivar core: class that transfers the data, as ``module:Class``.
    :ivar file: bitstream file on this host; None: it is in the library.
    """

    core: str
    file: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """An FPGA.

    :ivar manager: FPGA manager that programs it; None if it has an FME.
    :ivar fme: its DFL management engine; None if it has a manager.
    :ivar sensors: name of its hwmon device; None: that of the manager or FME.
    """

    name: str
    model: str = "fpga-region"
    manager: str | None = None
    fme: str | None = None
    partial: bool = True
    sensors: str | None = None
    dma_bytes_per_s: float = 1e9
    programming_time_s: float = 1.0
    accelerators: dict[str, Implementation]
    regions: tuple[RegionEntry, ...]


def _key(value: object, where: str) -> str:
    plain, _, _ = str(value).partition(names.SEPARATOR)
    if not base.NAME_PATTERN.fullmatch(plain):
        raise shapes.Invalid(where, "is not a valid accelerator name")
    return str(value)


_NAME = shapes.nullable(documents.NAME)
_DEVICES = shapes.list_of(
    shapes.matching("/dev/[^/].{0,250}", "a path below /dev"), most=16
)
_BOARD = shapes.Members(
    {
        "name": documents.NAME,
        "accelerators": shapes.mapping_of(
            shapes.Members(
                {"core": shapes.matching(".*:.*", "module:Class")},
                {"file": shapes.text()},
            ),
            MAX_ACCELERATORS,
            _key,
        ),
        "regions": shapes.list_of(
            shapes.Members(
                {"region": documents.NAME, "shape": documents.NAME},
                {"port": _NAME, "devices": _DEVICES},
            ),
            1,
            MAX_REGIONS,
        ),
    },
    {
        "model": documents.NAME,
        "manager": _NAME,
        "fme": _NAME,
        "partial": shapes.flag,
        "sensors": _NAME,
        "dma_bytes_per_s": documents.number(1, 1e15),
        "programming_time_s": documents.number(0, 3600),
    },
)


def _board(value: object, where: str) -> Board:
    members = _BOARD(value, where)
    members["accelerators"] = {
        key: Implementation(**entry)
        for key, entry in members["accelerators"].items()
    }
    members["regions"] = tuple(
        RegionEntry(**{**entry, "devices": tuple(entry.get("devices", ()))})
        for entry in members["regions"]
    )
    board = Board(**members)
    if (board.manager is None) == (board.fme is None):
        raise shapes.Invalid(
            f"{where}.manager", "exactly one of manager and fme is required"
        )
    if board.fme is not None and "partial" in members:
        raise shapes.Invalid(f"{where}.partial", "is not allowed with fme")
    if not board.partial and len(board.regions) > 1:
        raise shapes.Invalid(
            f"{where}.partial", "must be true if there are several regions"
        )
    for index, entry in enumerate(board.regions):
        if (entry.port is None) != (board.fme is None):
            raise shapes.Invalid(
                f"{where}.regions[{index}].port",
                "is allowed only with fme" if entry.port else "is missing",
            )
    return board


_FILE = shapes.Members(
    {"boards": documents.boards(_board, 1, MAX_BOARDS)}, documents.POWER_CAP
)


def _boards(value: object, where: str) -> shapes.Object:
    members = _FILE(value, where)
    # Two slots in the same region would overwrite each other.
    regions = [
        one.region for each in members["boards"] for one in each.regions
    ]
    for name in regions:
        if regions.count(name) > 1:
            raise shapes.Invalid("regions", f"{name!r} is not unique")
    return members


def read_boards(
    path: str | os.PathLike[str],
) -> tuple[tuple[Board, ...], float | None]:
    """Read and check a boards file; see :func:`documents.read`.

    :returns: the boards, in the order of the file, and the host's power cap in
        W, if it has one.
    """
    members, _ = documents.read("boards file", path, _boards)
    return members["boards"], members.get("power_cap_w")
