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

MAX_BOARDS = 64
MAX_SLOTS = 64
MAX_SHARE = 1000

CPU = "cpu"
GPU = "gpu"
#: Boards with FPGAs, and whatever else is neither of the others.
ACCELERATOR = "accelerator"

#: Where Linux shows devices of the PCI bus.
PCI_DIRECTORY = pathlib.Path("/sys/bus/pci/devices")

_FILE_MEMBERS = ("boards", documents.POWER_CAP_W)
_MEMBERS = (
    "name",
    "platform",
    "device",
    "pci",
    "model",
    "shape",
    "slots",
    "shares",
    "cu",
    "dma_bytes_per_s",
    "programming_time_s",
    "hang_min_s",
    "hang_factor",
)
_MAX_NAME_CHARS = 64
_MAX_PATTERN_CHARS = 256
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
_INSTANCE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
PCI_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A device that a runtime has.

    :ivar number: from 0 among devices of its platform with this name.
    :ivar kind: ``cpu``, ``gpu`` or ``accelerator``.
    :ivar pci: its address on the PCI bus, None if the runtime does not say.
    :ivar memory_bytes: of the device; 0 if it is unknown.
    :ivar unified: whether it computes in the host's memory.
    :ivar has_compiler: whether its runtime compiles sources.
    """

    platform: str
    name: str
    number: int
    kind: str
    pci: str | None
    memory_bytes: int
    unified: bool
    has_compiler: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Board:
    """An entry of a board file: it stands for all devices that it fits.

    :ivar name: of the device; others that it fits are told by their address
        on the PCI bus, or a number.
    :ivar platform: pattern of the platform's name.
    :ivar device: pattern of the device's name.
    :ivar pci: address on the PCI bus, None for any.
    :ivar model: None: the device's name.
    :ivar shape: None: platform and device.
    :ivar shares: of each slot, in the device's memory.
    :ivar is_divided: whether each slot has its share of the units, too.
    :ivar instances: of kernels, the one of each slot; empty: any.
    :ivar dma_bytes_per_s: input rate that its slots share.
    :ivar programming_time_s: None: as measured.
    :ivar hang_min_s: a launch that takes less does not hang.
    :ivar hang_factor: nor does one that takes less than so many times the
        time that the accelerator's peak rate makes of its input.
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
        """How many slots each device has."""
        return len(self.shares)

    def fits(self, found: Found) -> bool:
        """Whether the entry stands for a device."""
        return (
            fnmatch.fnmatchcase(found.platform, self.platform)
            and fnmatch.fnmatchcase(found.name, self.device)
            # A runtime may not know the address; then the file has it.
            and (self.pci is None or found.pci in (None, self.pci))
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """A device of the pool.

    :ivar board: its entry in the board file.
    """

    name: str
    board: Board
    found: Found

    @property
    def shape(self) -> str:
        """The shape of its slots."""
        return self.board.shape or shape_of(self.found)

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
    """Make a name of any text.

    :param text: for example the name of a device.
    :returns: the same text if it is a name; different texts have different
        names if they are long.
    """
    name = _NOT_IN_NAMES.sub("-", text).strip("-._") or "unnamed"
    if len(name) > _MAX_NAME_CHARS:
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        name = f"{name[: _MAX_NAME_CHARS - 9]}-{digest}"
    return name


def shape_of(found: Found) -> str:
    """Return the shape of a device's slots: platform and device.

    Binaries for one device need not run on another.
    """
    return sanitised(f"{found.platform} {found.name}")


def matched(
    boards: collections.abc.Sequence[Board],
    found: collections.abc.Iterable[Found],
) -> tuple[Device, ...]:
    """Find the devices of the pool.

    :param boards: entries of the board file; the first one that fits counts.
    :param found: all devices of the host.
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


def read_boards(
    path: str | os.PathLike[str],
) -> tuple[tuple[Board, ...], float | None]:
    """Read and check a board file.

    :returns: its entries, and the host's cap on power in W, if it has one.
    :raises base.DriverError: ``INVALID_SETTINGS`` with the file, the member
        and the error.
    """
    checker = documents.Checker("boards file", path)
    members = checker.members(checker.read(), "file", _FILE_MEMBERS)
    entries = members.get("boards")
    if not isinstance(entries, list) or not 0 < len(entries) <= MAX_BOARDS:
        raise checker.error("boards", f"must be a list of 1 to {MAX_BOARDS}")
    return checker.boards(entries, _board), checker.power_cap_w(members)


def _board(checker: documents.Checker, entry: object, where: str) -> Board:
    members = checker.members(entry, where, _MEMBERS)
    where += "."
    shares, instances = _slots(checker, members, where)
    name = checker.name(members, where, "name", None)
    # Room for an address on the PCI bus behind it.
    if len(name) > _MAX_NAME_CHARS - 13:
        raise checker.error(
            f"{where}name", f"must have up to {_MAX_NAME_CHARS - 13} letters"
        )
    usual = Board()
    return Board(
        name=name,
        platform=_pattern(checker, members, where, "platform"),
        device=_pattern(checker, members, where, "device"),
        pci=_address(checker, members, where),
        model=_optional(checker, members, where, "model"),
        shape=_optional(checker, members, where, "shape"),
        shares=shares,
        is_divided="shares" in members,
        instances=instances,
        dma_bytes_per_s=checker.number(
            members, where, "dma_bytes_per_s", usual.dma_bytes_per_s, 1, 1e15
        ),
        programming_time_s=checker.number(
            members, where, "programming_time_s", 0, 0, 3600
        )
        if "programming_time_s" in members
        else None,
        hang_min_s=checker.number(
            members, where, "hang_min_s", usual.hang_min_s, 0.1, 86400
        ),
        hang_factor=checker.number(
            members, where, "hang_factor", usual.hang_factor, 1, 1e6
        ),
    )


def _slots(
    checker: documents.Checker, members: dict[str, typing.Any], where: str
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Read shares and instances of slots: one of three members says both."""
    given = [name for name in ("slots", "shares", "cu") if name in members]
    if len(given) > 1:
        raise checker.error(
            f"{where}{given[1]}", f"is not allowed beside {given[0]}"
        )
    if "cu" in members:
        names = members["cu"]
        if not _is_list(names) or not all(
            isinstance(name, str) and _INSTANCE.fullmatch(name)
            for name in names
        ):
            raise checker.error(
                f"{where}cu", f"must be 1 to {MAX_SLOTS} instances of kernels"
            )
        return (1,) * len(names), tuple(names)
    if "shares" in members:
        shares = members["shares"]
        if not _is_list(shares) or not all(
            _is_integer(share, MAX_SHARE) for share in shares
        ):
            raise checker.error(
                f"{where}shares",
                f"must be 1 to {MAX_SLOTS} integers from 1 to {MAX_SHARE}",
            )
        return tuple(shares), ()
    slots = members.get("slots", 1)
    if not _is_integer(slots, MAX_SLOTS):
        raise checker.error(
            f"{where}slots", f"must be an integer from 1 to {MAX_SLOTS}"
        )
    return (1,) * slots, ()


def _is_list(value: object) -> bool:
    return isinstance(value, list) and 0 < len(value) <= MAX_SLOTS


def _is_integer(value: object, highest: int) -> bool:
    return (
        isinstance(value, int)
        and not isinstance(value, bool)
        and 1 <= value <= highest
    )


def _pattern(
    checker: documents.Checker,
    members: dict[str, typing.Any],
    where: str,
    member: str,
) -> str:
    value = members.get(member, "*")
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_PATTERN_CHARS:
        raise checker.error(
            f"{where}{member}",
            "must be a pattern such as 'NVIDIA*', of up to "
            f"{_MAX_PATTERN_CHARS} letters",
        )
    return value


def _address(
    checker: documents.Checker, members: dict[str, typing.Any], where: str
) -> str | None:
    value = members.get("pci")
    if value is not None and (
        not isinstance(value, str) or not PCI_ADDRESS.fullmatch(value)
    ):
        raise checker.error(
            f"{where}pci", "must be an address such as '0000:3b:00.0'"
        )
    return value


def _optional(
    checker: documents.Checker,
    members: dict[str, typing.Any],
    where: str,
    member: str,
) -> str | None:
    if member not in members:
        return None
    return checker.name(members, where, member, None)


def telemetry(
    pci: str | None, directory: pathlib.Path = PCI_DIRECTORY
) -> base.Telemetry:
    """Read the sensors of a board.

    Linux shows those of its driver by the board's address: of hwmon, or of
    the card management controller of AMD's boards.

    :param pci: the address; None if it is unknown.
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
    """Whether a board has not vanished from the PCI bus.

    :param pci: its address; None if it is unknown, as that of a processor.
    """
    return pci is None or (directory / pci).exists()


def interface_uuid(
    pci: str | None,
    wanted: uuid.UUID | None,
    directory: pathlib.Path = PCI_DIRECTORY,
) -> uuid.UUID | None:
    """Return the interface of a board's shell.

    The driver of AMD's boards shows what the shell has.

    :param pci: the board's address; None if it is unknown.
    :param wanted: of the file that the board is about to get.
    :returns: the one that is wanted if the board has it, or does not say;
        then the runtime decides.
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
