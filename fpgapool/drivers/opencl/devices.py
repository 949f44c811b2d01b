# SPDX-License-Identifier: Apache-2.0

"""The devices of a host that the pool uses, and their slots.

A *boards file* selects devices by patterns for their platform and name. This
module does not load an OpenCL runtime; for agents,
:mod:`fpgapool.drivers.opencl.survey` does so in a separate process.
"""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import fnmatch
import hashlib
import os
import pathlib
import re
import typing
import uuid

from fpgapool.drivers import base
from fpgapool.drivers import documents
from fpgapool.vocabulary import shapes

MAX_BOARDS = 64
MAX_SLOTS = 64
MAX_SHARE = 1000

#: Where Linux lists PCI devices.
PCI_DIRECTORY = pathlib.Path("/sys/bus/pci/devices")

_MAX_NAME_CHARS = 64
#: Leaves room for a PCI address after the name.
_MAX_BOARD_CHARS = _MAX_NAME_CHARS - 13
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
PCI_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A device that a runtime found.

    :ivar number: its number among devices of this platform and name, from 0.
    :ivar pci: its PCI address; None if it is not reported.
    :ivar memory_bytes: size of its memory; 0: unknown.
    :ivar unified: whether it computes in the host's memory.
    """

    platform: str
    name: str
    number: int
    pci: str | None
    memory_bytes: int
    unified: bool
    has_compiler: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Board:
    """An entry in a boards file, which applies to all devices it matches.

    :ivar name: name of the device in the pool; if several devices match, their
        PCI address or number is appended.
    :ivar platform: pattern for the name of the platform.
    :ivar device: pattern for the name of the device.
    :ivar pci: PCI address; None: any.
    :ivar model: model of the board; None: the device's name.
    :ivar shape: shape of the slots; None: platform and device.
    :ivar shares: each slot's share of the device's memory.
    :ivar is_divided: whether these shares also divide the compute units.
    :ivar instances: kernel instance of each slot; empty: any.
    :ivar programming_time_s: time to program a slot; None: as measured.
    :ivar hang_min_s: time that every command may take.
    :ivar hang_factor: additional time that a command may take, as a multiple
        of the time that the largest input in every lane of every slot takes
        at peak rate.
    """

    name: str = "opencl"
    platform: str = "*"
    device: str = "*"
    pci: str | None = None
    model: str | None = None
    shape: str | None = None
    shares: tuple[int, ...] = (1,)
    is_divided: bool = False
    instances: tuple[str, ...] = ()
    dma_bytes_per_s: float = 2.1e9
    programming_time_s: float | None = None
    hang_min_s: float = 30.0
    hang_factor: float = 100.0

    @property
    def slots(self) -> int:
        return len(self.shares)

    def fits(self, found: Found) -> bool:
        """Whether the entry matches a device."""
        return (
            fnmatch.fnmatchcase(found.platform, self.platform)
            and fnmatch.fnmatchcase(found.name, self.device)
            # If the runtime does not report the address, use the file's.
            and (self.pci is None or found.pci in (None, self.pci))
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    name: str
    board: Board
    found: Found

    @property
    def shape(self) -> str:
        # A binary for one device may not run on another, so the default shape
        # depends on the device.
        return self.board.shape or sanitised(
            f"{self.found.platform} {self.found.name}"
        )

    @property
    def model(self) -> str:
        """Human-readable model of the board."""
        return self.board.model or sanitised(self.found.name)

    @property
    def pci(self) -> str | None:
        """Its PCI address; None if it is unknown."""
        return self.found.pci or self.board.pci

    def memory_bytes(self, slot: int) -> int | None:
        """Return a slot's share of the device's memory; None: unknown."""
        shares = self.board.shares
        return self.found.memory_bytes * shares[slot] // sum(shares) or None

    def units(self, most: int) -> list[int]:
        """Divide the device's compute units among its slots.

        :param most: number of units of the device.
        :returns: number of units for each slot, at least 1; empty if there are
            fewer units than slots.
        """
        shares = self.board.shares
        rest = most - len(shares)
        if rest < 0:
            return []
        units = [1 + rest * share // sum(shares) for share in shares]
        units[shares.index(max(shares))] += most - sum(units)
        return units

    def instance(self, slot: int) -> str:
        """Return the kernel instance of a slot; empty: any."""
        instances = self.board.instances
        return instances[slot] if instances else ""


#: Without a boards file, each device of each runtime is one slot.
DEFAULT_BOARDS = (Board(),)


def sanitised(text: str) -> str:
    """Turn any text into a valid name.

    :returns: the text itself if it is a valid name. The name of a long text
        ends in a digest, to make it unique.
    """
    name = _NOT_IN_NAMES.sub("-", text).strip("-._") or "unnamed"
    if len(name) > _MAX_NAME_CHARS:
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        name = f"{name[: _MAX_NAME_CHARS - 9]}-{digest}"
    return name


def matched(
    boards: collections.abc.Sequence[Board],
    found: collections.abc.Iterable[Found],
) -> tuple[Device, ...]:
    """Find the devices that the pool uses.

    :param boards: entries of the boards file; the first match is used.
    :returns: the devices in the order of the entries; devices of the same
        entry in the order of their PCI addresses.
    """
    chosen = collections.defaultdict[Board, list[Found]](list)
    for each in found:
        for board in boards:
            if board.fits(each):
                chosen[board].append(each)
                break
    devices = []
    for board in boards:
        several = sorted(
            chosen[board],
            key=lambda each: (each.pci or "", each.platform, each.name),
        )
        for number, each in enumerate(several):
            name = board.name
            if len(several) > 1:
                place = each.pci.replace(":", ".") if each.pci else number
                name = f"{name}-{place}"
            devices.append(Device(name, board, each))
    return tuple(devices)


_PATTERN = shapes.text(256, least=1)
_OPTIONAL: dict[str, shapes.Shape[typing.Any]] = {
    "platform": _PATTERN,
    "device": _PATTERN,
    "pci": shapes.nullable(
        shapes.matching(PCI_ADDRESS, "an address such as '0000:3b:00.0'")
    ),
    "model": documents.NAME,
    "shape": documents.NAME,
    "dma_bytes_per_s": documents.number(1, 1e15),
    "programming_time_s": documents.number(0, 3600),
    "hang_min_s": documents.number(0.1, 86400),
    "hang_factor": documents.number(1, 1e6),
}
#: Members that set the number of slots; at most one of them is allowed.
_SLOTS: dict[str, shapes.Shape[typing.Any]] = {
    "slots": shapes.integer(1, MAX_SLOTS),
    "shares": shapes.list_of(shapes.integer(1, MAX_SHARE), 1, MAX_SLOTS),
    "cu": shapes.list_of(
        shapes.matching(r"[A-Za-z_][A-Za-z0-9_]{0,63}", "a kernel instance"),
        1,
        MAX_SLOTS,
    ),
}
_BOARD = shapes.Members({"name": documents.NAME}, _OPTIONAL | _SLOTS)


def _board(value: object, where: str) -> Board:
    members = _BOARD(value, where)
    if len(members["name"]) > _MAX_BOARD_CHARS:
        raise shapes.Invalid(
            f"{where}.name", f"must be at most {_MAX_BOARD_CHARS} characters"
        )
    given = [name for name in _SLOTS if name in members]
    if len(given) > 1:
        raise shapes.Invalid(
            f"{where}.{given[1]}", f"cannot be combined with {given[0]}"
        )
    shares = members.pop("shares", None)
    instances = tuple(members.pop("cu", ()))
    slots = members.pop("slots", len(instances) or 1)
    return Board(
        shares=(1,) * slots if shares is None else tuple(shares),
        is_divided=shares is not None,
        instances=instances,
        **members,
    )


_FILE = shapes.Members(
    {"boards": documents.boards(_board, 1, MAX_BOARDS)}, documents.POWER_CAP
)


def read_boards(
    path: str | os.PathLike[str],
) -> tuple[tuple[Board, ...], float | None]:
    """Read and check a boards file; see :func:`documents.read`.

    :returns: its entries, and the host's power cap in W, if it has one.
    """
    members, _ = documents.read("boards file", path, _FILE)
    return members["boards"], members.get("power_cap_w")


def telemetry(
    pci: str | None, directory: pathlib.Path = PCI_DIRECTORY
) -> base.Telemetry:
    """Read the sensors of a board.

    Linux lists a board's sensors under its PCI address: those of hwmon, or of
    the card management controller of AMD boards.

    :returns: the values, None for each that is missing.
    """
    if pci is None:
        return base.Telemetry(None, None)
    board = directory / pci
    return base.Telemetry(
        _first(
            board,
            1e6,
            *("hwmon/*/power1_average", "hwmon/*/power1_input"),
            "xmc*/xmc_power",
        ),
        _first(board, 1e3, "hwmon/*/temp1_input")
        or _first(board, 1, "xmc*/xmc_fpga_temp"),
    )


def is_on_bus(
    pci: str | None, directory: pathlib.Path = PCI_DIRECTORY
) -> bool:
    """Whether a board is still on the PCI bus."""
    return pci is None or (directory / pci).exists()


def interface_uuid(
    pci: str | None,
    wanted: uuid.UUID | None,
    directory: pathlib.Path = PCI_DIRECTORY,
) -> uuid.UUID | None:
    """Return the interface of a board's shell.

    The driver of AMD boards lists the interfaces of the shell.

    :param wanted: interface that the file to be programmed requires.
    :returns: ``wanted`` if the board has it, or if none is listed: the runtime
        then decides whether the file fits.
    """
    if pci is None:
        return wanted
    try:
        text = (directory / pci / "interface_uuids").read_text()
        there = [uuid.UUID(word) for word in text.split()]
    except (OSError, ValueError):
        return wanted
    if wanted in there or not there:
        return wanted
    return there[0]


def _first(board: pathlib.Path, unit: float, *patterns: str) -> float | None:
    for pattern in patterns:
        for path in sorted(board.glob(pattern)):
            try:
                return float(path.read_text()) / unit
            except (OSError, ValueError):
                continue
    return None
