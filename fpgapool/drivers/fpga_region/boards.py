# SPDX-License-Identifier: Apache-2.0

"""The file that describes the FPGAs of a host."""

from __future__ import annotations

import dataclasses
import os
import typing

from fpgapool.drivers import base
from fpgapool.drivers import documents
from fpgapool.vocabulary import names

MAX_BOARDS = 64
MAX_REGIONS = 64
MAX_ACCELERATORS = 256

_BOARD_MEMBERS = (
    "name",
    "model",
    "manager",
    "fme",
    "partial",
    "sensors",
    "dma_bytes_per_s",
    "programming_time_s",
    "accelerators",
    "regions",
)
_REGION_MEMBERS = ("region", "port", "shape")
_ACCELERATOR_MEMBERS = ("core", "file")


@dataclasses.dataclass(frozen=True, slots=True)
class RegionEntry:
    """A region: a slot.

    :ivar region: its name in ``/sys/class/fpga_region``.
    :ivar port: its DFL port; None with an FPGA manager.
    """

    region: str
    port: str | None
    shape: str


@dataclasses.dataclass(frozen=True, slots=True)
class Implementation:
    """How an accelerator is used in the regions of a board.

    :ivar core: class that moves the data, ``module:Class``.
    :ivar file: bitstream of this host; None if it comes from the library.
    """

    core: str
    file: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Board:
    """An FPGA.

    :ivar manager: FPGA manager that programs it; None with an FME.
    :ivar fme: its DFL management engine; None with a manager.
    :ivar partial: whether a region is programmed without the others.
    :ivar sensors: name of its device of hwmon; None: those of manager or FME.
    :ivar dma_bytes_per_s: input rate that its regions share.
    :ivar programming_time_s: approximate time to program a region.
    :ivar accelerators: by their key in the library.
    """

    name: str
    model: str
    manager: str | None
    fme: str | None
    partial: bool
    sensors: str | None
    dma_bytes_per_s: float
    programming_time_s: float
    accelerators: dict[str, Implementation]
    regions: tuple[RegionEntry, ...]


def read_boards(
    path: str | os.PathLike[str],
) -> tuple[tuple[Board, ...], float | None]:
    """Read and check a boards file.

    :returns: the boards, in the order of the file, and the host's cap on
        power in W, if it has one.
    :raises base.DriverError: ``INVALID_SETTINGS`` with the file, the member
        and the error.
    """
    checker = documents.Checker("boards file", path)
    members = checker.members(
        checker.read(), "file", ("boards", documents.POWER_CAP_W)
    )
    reader = _Reader(checker)
    boards = tuple(
        reader.board(entry, f"boards[{index}]")
        for index, entry in enumerate(
            reader.items(members, "", "boards", MAX_BOARDS)
        )
    )
    reader.check_once("boards", [board.name for board in boards])
    # Two slots in one region would program each other.
    regions = [entry.region for board in boards for entry in board.regions]
    reader.check_once("regions", regions)
    return boards, checker.power_cap_w(members)


class _Reader:
    """Reads boards."""

    def __init__(self, checker: documents.Checker) -> None:
        self._checker = checker

    def items(
        self,
        members: dict[str, typing.Any],
        where: str,
        member: str,
        most: int,
    ) -> list[typing.Any]:
        found = members.get(member)
        if not isinstance(found, list) or not 1 <= len(found) <= most:
            raise self._checker.error(
                f"{where}{member}", f"must be a list of 1 to {most}"
            )
        return found

    def check_once(self, where: str, found: list[str]) -> None:
        for name in found:
            if found.count(name) > 1:
                raise self._checker.error(where, f"{name!r} is there twice")

    def board(self, entry: object, where: str) -> Board:
        check = self._checker
        members = check.members(entry, where, _BOARD_MEMBERS)
        where += "."
        manager = self._optional(members, where, "manager")
        fme = self._optional(members, where, "fme")
        if (manager is None) == (fme is None):
            raise check.error(f"{where}manager", "give this or 'fme'")
        if fme is not None and "partial" in members:
            raise check.error(f"{where}partial", "is not for an 'fme'")
        regions = tuple(
            self._region(each, f"{where}regions[{index}]", fme is not None)
            for index, each in enumerate(
                self.items(members, where, "regions", MAX_REGIONS)
            )
        )
        partial = check.flag({"partial": True, **members}, where, "partial")
        if not partial and len(regions) > 1:
            raise check.error(
                f"{where}partial", "must be true with several regions"
            )
        return Board(
            name=check.name(members, where, "name", None),
            model=check.name(members, where, "model", "fpga-region"),
            manager=manager,
            fme=fme,
            partial=partial,
            sensors=self._optional(members, where, "sensors"),
            dma_bytes_per_s=check.number(
                members, where, "dma_bytes_per_s", 1e9, 1, 1e15
            ),
            programming_time_s=check.number(
                members, where, "programming_time_s", 1.0, 0, 3600
            ),
            accelerators=self._accelerators(members, where),
            regions=regions,
        )

    def _optional(
        self, members: dict[str, typing.Any], where: str, member: str
    ) -> str | None:
        if members.get(member) is None:
            return None
        return self._checker.name(members, where, member, None)

    def _region(self, entry: object, where: str, is_dfl: bool) -> RegionEntry:
        check = self._checker
        members = check.members(entry, where, _REGION_MEMBERS)
        where += "."
        port = self._optional(members, where, "port")
        if (port is not None) != is_dfl:
            raise check.error(
                f"{where}port",
                "is missing" if is_dfl else "is only for boards with an 'fme'",
            )
        return RegionEntry(
            check.name(members, where, "region", None),
            port,
            check.name(members, where, "shape", None),
        )

    def _accelerators(
        self, members: dict[str, typing.Any], where: str
    ) -> dict[str, Implementation]:
        found = members.get("accelerators")
        where += "accelerators"
        if not isinstance(found, dict) or len(found) > MAX_ACCELERATORS:
            raise self._checker.error(
                where, f"must be a mapping of up to {MAX_ACCELERATORS}"
            )
        return {
            self._key(key, where): self._accelerator(entry, f"{where}.{key}")
            for key, entry in found.items()
        }

    def _key(self, key: object, where: str) -> str:
        plain, _, _ = str(key).partition(names.SEPARATOR)
        if not isinstance(key, str) or not base.NAME_PATTERN.fullmatch(plain):
            raise self._checker.error(
                where, f"{key!r:.80} is no name of an accelerator"
            )
        return key

    def _accelerator(self, entry: object, where: str) -> Implementation:
        members = self._checker.members(entry, where, _ACCELERATOR_MEMBERS)
        for member in _ACCELERATOR_MEMBERS:
            if not isinstance(members.get(member, ""), str):
                raise self._checker.error(
                    f"{where}.{member}", "must be a text"
                )
        if ":" not in members.get("core", ""):
            raise self._checker.error(f"{where}.core", "must be module:Class")
        return Implementation(members["core"], members.get("file"))
