# SPDX-License-Identifier: Apache-2.0

"""The devices of a host that the pool uses, and their slots.

A *board file* chooses devices by patterns of their platform and name. This
module loads no runtime of OpenCL: :mod:`fpgapool.drivers.opencl.survey`
does, in a process of its own when an agent asks.
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

#: Where Linux shows devices of the PCI bus.
PCI_DIRECTORY = pathlib.Path("/sys/bus/pci/devices")

_MAX_NAME_CHARS = 64
#: Leaves room for a PCI address after the name.
_MAX_BOARD_CHARS = _MAX_NAME_CHARS - 13
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
PCI_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A device that a runtime has.

    :ivar number: from 0 among devices of its platform with this name.
    :ivar pci: its address on the PCI bus, None if it is not reported.
    :ivar memory_bytes: of the device; 0 if it is unknown.
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
    """An entry of a board file: it stands for all devices that it matches.

    :ivar name: name of the device; further matching devices are distinguished
        by PCI address or number.
    :ivar pci: address on the PCI bus, None for any.
    :ivar model: None: the device's name.
    :ivar shape: None: platform and device.
    :ivar shares: each slot's share of the device's memory.
    :ivar is_divided: whether each slot has its share of the units, too.
    :ivar instances: the kernel instance of each slot; empty: any.
    :ivar programming_time_s: None: as measured.
    :ivar hang_min_s: shorter launches never count as hanging.
    :ivar hang_factor: likewise launches shorter than this multiple of their
        input's time at peak rate.
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
            # If the runtime does not know the address, the file gives it.
            and (self.pci is None or found.pci in (None, self.pci))
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    name: str
    board: Board
    found: Found

    @property
    def shape(self) -> str:
        # Binaries for one device need not run on another.
        return self.board.shape or sanitised(
            f"{self.found.platform} {self.found.name}"
        )

    @property
    def model(self) -> str:
        """Its kind, for people."""
        return self.board.model or sanitised(self.found.name)

    @property
    def pci(self) -> str | None:
        """Its address on the PCI bus, None if it is unknown."""
        return self.found.pci or self.board.pci

    def memory_bytes(self, slot: int) -> int | None:
        """Return a slot's share of the device's memory.

        :returns: None if the runtime does not know the memory of the device.
        """
        shares = self.board.shares
        return self.found.memory_bytes * shares[slot] // sum(shares) or None

    def units(self, most: int) -> list[int]:
        """Divide the computing units of the device among its slots.

        :returns: the number of each slot, 1 at least; empty if there are too
            few.
        """
        shares = self.board.shares
        rest = most - len(shares)
        if rest < 0:
            return []
        units = [1 + rest * share // sum(shares) for share in shares]
        units[shares.index(max(shares))] += most - sum(units)
        return units

    def instance(self, slot: int) -> str:
        """Return the instance of kernels that a slot has; empty for any."""
        instances = self.board.instances
        return instances[slot] if instances else ""


#: Without a board file every device of every runtime is one slot.
DEFAULT_BOARDS = (Board(),)


def sanitised(text: str) -> str:
    """Turn any text into a name.

    :returns: the same text if it is a name; different texts have different
        names if they are long.
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
    """Find the devices of the pool.

    :param boards: entries of the board file; the first one that fits counts.
    :returns: the devices in the order of the entries; those of one entry by
        their address on the PCI bus.
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
#: At most one of these sets the number of slots.
_SLOTS: dict[str, shapes.Shape[typing.Any]] = {
    "slots": shapes.integer(1, MAX_SLOTS),
    "shares": shapes.list_of(shapes.integer(1, MAX_SHARE), 1, MAX_SLOTS),
    "cu": shapes.list_of(
        shapes.matching(r"[A-Za-z_][A-Za-z0-9_]{0,63}", "a kernel's instance"),
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
    """Read and check a board file; see :func:`documents.read`.

    :returns: its entries, and the host's cap on power in W, if it has one.
    """
    members, _ = documents.read("boards file", path, _FILE)
    return members["boards"], members.get("power_cap_w")


def telemetry(
    pci: str | None, directory: pathlib.Path = PCI_DIRECTORY
) -> base.Telemetry:
    """Read the sensors of a board.

    Linux shows those of its driver by the board's address: of hwmon, or of
    the card management controller of AMD's boards.

    :returns: None for each value that is not there.
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

    The driver of AMD's boards shows what the shell has.

    :param wanted: of the file that the board is about to get.
    :returns: the requested one if the board has it, or shows none; then the
        runtime decides.
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
