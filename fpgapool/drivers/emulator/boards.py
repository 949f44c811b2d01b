# SPDX-License-Identifier: Apache-2.0

"""The file that describes the emulated boards of a host."""

from __future__ import annotations

import collections.abc
import dataclasses
import os
import typing

from fpgapool.drivers import documents
from fpgapool.drivers.emulator import faults

MAX_BOARDS = 64
MAX_SLOTS = 64

DEFAULT_NIC_BYTES_PER_S = 1.25e9

MAX_SHAPES = 256
MAX_RESOURCE = 10**9
#: Resources of slots and bitstreams.
RESOURCES = ("lut", "ff", "bram", "dsp")

_FILE_MEMBERS = (
    "rate_scale",
    "unlimited",
    "nic_bytes_per_s",
    documents.POWER_CAP_W,
    "shapes",
    "boards",
)
_BOARD_MEMBERS = (
    "name",
    "model",
    "dma_bytes_per_s",
    "programming_time_s",
    "shape",
    "slots",
    "idle_power_w",
    "active_power_w",
    "faults",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Board:
    """One emulated board; power is drawn by the board and each busy slot.

    :ivar faults: the faults in the boards file.
    """

    name: str
    model: str
    dma_bytes_per_s: float
    programming_time_s: float
    shape: str
    slots: int
    idle_power_w: float
    active_power_w: float
    faults: tuple[faults.Fault, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Boards:
    """All emulated boards of a host.

    :ivar rate_scale: factor of every rate, None if rates are unlimited.
    :ivar nic_bytes_per_s: rate of the host's NIC in each direction.
    :ivar boards: the boards, in the order of the file.
    :ivar version: of the file; see :func:`documents.file_version`.
    :ivar capacities: of a slot, by its shape, and by resource. A missing
        shape, or a missing resource, is unlimited.
    :ivar power_cap_w: what its slots may take together; None: any power.
    """

    rate_scale: float | None
    nic_bytes_per_s: float
    boards: tuple[Board, ...]
    version: str
    capacities: collections.abc.Mapping[str, dict[str, int]] = (
        dataclasses.field(default_factory=dict)
    )
    power_cap_w: float | None = None

    def scaled(self, bytes_per_s: float) -> float:
        """Return the emulated rate; unlimited rates are not limited.

        :param bytes_per_s: the rate of the board or the NIC.
        """
        scale = self.rate_scale
        return bytes_per_s if scale is None else bytes_per_s * scale


def read_boards(path: str | os.PathLike[str]) -> Boards:
    """Read and check a boards file.

    :returns: the boards.
    :raises base.DriverError: ``INVALID_SETTINGS`` with the file, the member
        and the error.
    """
    checker = documents.Checker("boards file", path)
    members = checker.members(checker.read(), "file", _FILE_MEMBERS)
    entries = members.get("boards")
    if not isinstance(entries, list):
        raise checker.error("boards", "must be a list")
    if len(entries) > MAX_BOARDS:
        raise checker.error("boards", f"must not be more than {MAX_BOARDS}")
    boards = checker.boards(entries, _board)
    return Boards(
        _rate_scale(checker, members),
        checker.number(
            members, "", "nic_bytes_per_s", DEFAULT_NIC_BYTES_PER_S, 1, 1e15
        ),
        boards,
        checker.version,
        _capacities(checker, members),
        checker.power_cap_w(members),
    )


def _capacities(
    checker: documents.Checker, members: dict[str, typing.Any]
) -> dict[str, dict[str, int]]:
    shapes = members.get("shapes", {})
    if not isinstance(shapes, dict):
        raise checker.error("shapes", "must be a mapping")
    if len(shapes) > MAX_SHAPES:
        raise checker.error("shapes", f"must not be more than {MAX_SHAPES}")
    return {
        checker.name({"shape": shape}, "shapes: ", "shape", None): _capacity(
            checker, found, f"shapes.{shape}"
        )
        for shape, found in shapes.items()
    }


def _capacity(
    checker: documents.Checker, found: object, where: str
) -> dict[str, int]:
    resources = checker.members(found, where, RESOURCES)
    for resource, count in resources.items():
        if (
            isinstance(count, bool)
            or not isinstance(count, int)
            or not 0 <= count <= MAX_RESOURCE
        ):
            raise checker.error(
                f"{where}.{resource}",
                f"must be an integer from 0 to {MAX_RESOURCE}",
            )
    return resources


def _rate_scale(
    checker: documents.Checker, members: dict[str, typing.Any]
) -> float | None:
    unlimited = checker.flag(members, "", "unlimited")
    if unlimited and "rate_scale" in members:
        raise checker.error(
            "rate_scale", "is not allowed when unlimited is true"
        )
    scale = checker.number(members, "", "rate_scale", 1.0, 1e-6, 1e6)
    return None if unlimited else scale


def _board(checker: documents.Checker, entry: object, where: str) -> Board:
    members = checker.members(entry, where, _BOARD_MEMBERS)
    where += "."
    slots = members.get("slots")
    if (
        isinstance(slots, bool)
        or not isinstance(slots, int)
        or not 1 <= slots <= MAX_SLOTS
    ):
        raise checker.error(
            f"{where}slots", f"must be an integer from 1 to {MAX_SLOTS}"
        )
    name, number = checker.name, checker.number
    board_name = name(members, where, "name", None)
    return Board(
        name=board_name,
        model=name(members, where, "model", "emulated"),
        dma_bytes_per_s=number(
            members, where, "dma_bytes_per_s", 2.1e9, 1, 1e15
        ),
        programming_time_s=number(
            members, where, "programming_time_s", 0.0, 0, 3600
        ),
        shape=name(members, where, "shape", "any"),
        slots=slots,
        idle_power_w=number(members, where, "idle_power_w", 20, 0, 1e4),
        active_power_w=number(members, where, "active_power_w", 5, 0, 1e4),
        faults=faults.board_faults(
            checker,
            members.get("faults", {}),
            f"{where}faults",
            board_name,
            slots,
        ),
    )
