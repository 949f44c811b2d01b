# SPDX-License-Identifier: Apache-2.0

"""The file that describes a host's emulated boards."""

from __future__ import annotations

import collections.abc
import dataclasses
import os

from fpgapool.drivers import documents
from fpgapool.drivers.emulator import faults
from fpgapool.objects import declaration
from fpgapool.vocabulary import names
from fpgapool.vocabulary import shapes

MAX_BOARDS = 64
MAX_SLOTS = 64
MAX_SHAPES = 256
MAX_RESOURCE = 10**9

DEFAULT_NIC_BYTES_PER_S = 1.25e9


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One emulated board; it draws idle power, plus more per busy slot."""

    name: str
    slots: int
    model: str = "emulated"
    dma_bytes_per_s: float = 2.1e9
    programming_time_s: float = 0.0
    shape: str = names.DEFAULT_SHAPE
    idle_power_w: float = 20.0
    active_power_w: float = 5.0
    faults: tuple[faults.Fault, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Boards:
    """All emulated boards of a host, in the order of the file.

    :ivar rate_scale: factor for every rate; None if rates are unlimited.
    :ivar nic_bytes_per_s: rate of the host's NIC in each direction.
    :ivar capacities: capacity of a slot, by shape and resource. Shapes and
        resources that are missing are unlimited.
    :ivar power_cap_w: maximum total power of the host's slots; None: no cap.
    """

    boards: tuple[Board, ...]
    rate_scale: float | None = 1.0
    nic_bytes_per_s: float = DEFAULT_NIC_BYTES_PER_S
    capacities: collections.abc.Mapping[str, dict[str, int]] = (
        dataclasses.field(default_factory=dict)
    )
    power_cap_w: float | None = None
    version: str = ""

    def scaled(self, bytes_per_s: float) -> float:
        """Return a scaled rate, or the rate itself if rates are unlimited."""
        scale = self.rate_scale
        return bytes_per_s if scale is None else bytes_per_s * scale


_BOARD = shapes.Members(
    {
        "name": documents.NAME,
        "slots": shapes.integer(1, MAX_SLOTS),
    },
    {
        "model": documents.NAME,
        "dma_bytes_per_s": documents.number(1, 1e15),
        "programming_time_s": documents.number(0, 3600),
        "shape": documents.NAME,
        "idle_power_w": documents.number(0, 1e4),
        "active_power_w": documents.number(0, 1e4),
        "faults": shapes.anything,
    },
)


def _board(value: object, where: str) -> Board:
    members = _BOARD(value, where)
    described = members.pop("faults", {})
    board = Board(**members)
    return dataclasses.replace(
        board,
        faults=faults.of_board(board.name, board.slots)(
            described, f"{where}.faults"
        ),
    )


_FILE = shapes.Members(
    {"boards": documents.boards(_board, 0, MAX_BOARDS)},
    {
        "rate_scale": documents.number(1e-6, 1e6),
        "unlimited": shapes.flag,
        "nic_bytes_per_s": documents.number(1, 1e15),
        # Capacities of slots, by shape.
        "shapes": shapes.mapping_of(
            shapes.Members(
                {},
                dict.fromkeys(
                    declaration.RESOURCES, shapes.integer(0, MAX_RESOURCE)
                ),
            ),
            MAX_SHAPES,
            documents.NAME,
        ),
        **documents.POWER_CAP,
    },
)


def _boards(value: object, where: str) -> Boards:
    members = _FILE(value, where)
    members["capacities"] = members.pop("shapes", {})
    if members.pop("unlimited", False):
        if "rate_scale" in members:
            raise shapes.Invalid(
                "rate_scale", "is not allowed when unlimited is true"
            )
        members["rate_scale"] = None
    return Boards(**members)


def read_boards(
    path: str | os.PathLike[str],
    loaded: collections.abc.Callable[[], tuple[bytes, str]] | None = None,
) -> Boards:
    """Read and check a boards file; see :func:`documents.read`."""
    found, version = documents.read("boards file", path, _boards, loaded)
    return dataclasses.replace(found, version=version)
