# SPDX-License-Identifier: Apache-2.0

"""FPGAs whose regions the Linux kernel programs."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import hashlib
import pathlib
import typing

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers import base
from fpgapool.drivers import common
from fpgapool.drivers.fpga_region import boards
from fpgapool.drivers.fpga_region import core
from fpgapool.drivers.fpga_region import dfl
from fpgapool.drivers.fpga_region import sysfs
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import formats
from fpgapool.vocabulary import names

#: Maximum size of a region's bitstream file.
MAX_FILE_BYTES = 256 << 20

_BOARDS_FILE_HELP = """
YAML file that describes the FPGAs of this host: their managers, regions,
shapes and accelerators. Required if ``[agent] driver`` is ``fpga_region``.
"""
_FIRMWARE_DIR_HELP = """
Directory in which the kernel looks for firmware. Workers must be able to write
to it: while the driver programs a region, it keeps the bitstream file there.
The kernel parameter ``firmware_class.path`` adds a directory to
``/lib/firmware``. Boards with a DFL do not need this directory.
"""
_ROOT_DIR_HELP = """
Directory that contains ``sys``, ``dev`` and ``proc``. Change it only for
tests.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class _Slot:
    """A slot, with its board and region."""

    board: boards.Board
    entry: boards.RegionEntry
    number: int

    @property
    def file_name(self) -> str:
        return f"{self.board.name}.{self.number}"


class FpgaRegionDriver(base.Driver):
    """Programs regions through FPGA managers or a DFL.

    The operator is responsible for the contents of regions, and provides the
    class that transfers the data; see :class:`core.RegionCore`. The boards
    file is read once.

    :raises base.DriverError: ``INVALID_SETTINGS``.
    """

    @classmethod
    def options(cls) -> collections.abc.Sequence[typing.Any]:
        from oslo_config import cfg

        return (
            cfg.StrOpt("boards_file", help=_BOARDS_FILE_HELP),
            cfg.StrOpt(
                "firmware_dir",
                default="/lib/firmware",
                help=_FIRMWARE_DIR_HELP,
            ),
            cfg.StrOpt(
                "root_dir", default="/", advanced=True, help=_ROOT_DIR_HELP
            ),
        )

    def __init__(
        self, settings: collections.abc.Mapping[str, typing.Any]
    ) -> None:
        self._directory = common.make_directory(
            "fpga_region", settings, "boards_file", "firmware_dir", "root_dir"
        )
        self._firmware_dir = pathlib.Path(settings["firmware_dir"])
        root = pathlib.Path(settings["root_dir"])
        self._classes = root / "sys" / "class"
        self._platform = root / "sys" / "bus" / "platform" / "devices"
        self._nodes = root / "dev"
        self._boot_id = root / "proc" / "sys" / "kernel" / "random" / "boot_id"
        found, self._power_cap_w = boards.read_boards(settings["boards_file"])
        self._boards = {board.name: board for board in found}

    def discover(self) -> tuple[base.DeviceInfo, ...]:
        return tuple(
            base.DeviceInfo(
                name=board.name,
                model=board.model,
                dma_bytes_per_s=board.dma_bytes_per_s,
                programming_time_s=board.programming_time_s,
                slots=tuple(
                    base.SlotInfo(
                        number,
                        entry.shape,
                        self._programmed(_Slot(board, entry, number))[0],
                    )
                    for number, entry in enumerate(board.regions)
                ),
                builtins={name: {} for name in board.accelerators},
            )
            for board in self._boards.values()
        )

    def program(
        self,
        device: str,
        slot: int,
        bitstream: str,
        file: base.BitstreamFile | None = None,
    ) -> base.Profile:
        place = self._slot(device, slot)
        if file is None:
            accelerator = bitstream.removeprefix(names.BUILTIN_PREFIX)
        else:
            accelerator = file.accelerator
        known = place.board.accelerators.get(accelerator)
        if known is None:
            raise base.DriverError(
                codes.BITSTREAM_UNKNOWN,
                f"the boards file does not list accelerator"
                f" {accelerator!r:.80} for {device}",
            )
        plain, _, _ = accelerator.partition(names.SEPARATOR)
        profile = dataclasses.replace(
            common.load_profile(plain), name=accelerator
        )
        common.check_shape(profile, place.entry.shape, accelerator)
        _load(known.core)
        contents = _contents(known, file)
        # The digest shows whether the operator has replaced a file.
        digest = hashlib.sha256(contents).hexdigest()
        wanted = (accelerator, f"{bitstream} {digest}")
        if self._programmed(place) != wanted:
            self._write(place, contents, wanted)
        return profile

    def _write(
        self, place: _Slot, contents: bytes, wanted: tuple[str, str]
    ) -> None:
        board = place.board
        if board.fme is not None:
            compat_id = sysfs.read(
                self._classes
                / "fpga_region"
                / place.entry.region
                / "compat_id"
            )
            contents = dfl.payload(contents, compat_id)
        lock = self._directory / f"{board.name}.lock"
        try:
            # A manager cannot program two regions at once.
            with sysfs.exclusive(lock):
                self._record(place)
                if board.manager is not None:
                    self._manager(board.manager).program(
                        contents,
                        f"fpgapool-{place.file_name}.bin",
                        partial=board.partial,
                    )
                else:
                    assert board.fme is not None
                    dfl.program(
                        self._nodes / board.fme,
                        dfl.port_id(self._platform / _port(place)),
                        contents,
                    )
                self._record(place, *wanted, self._boot())
        except OSError as error:
            raise base.DriverError(
                codes.PROGRAMMING_FAILED, f"{place.file_name}: {error}"
            ) from error

    def open(
        self,
        device: str,
        slot: int,
        params: collections.abc.Mapping[str, typing.Any],
    ) -> base.Core:
        place = self._slot(device, slot)
        found = self._used(place)
        if found is None:
            raise common.not_programmed(device, slot)
        core_class, region = found
        return core_class(params, region)

    def scrub(self, device: str, slot: int) -> None:
        place = self._slot(device, slot)
        found = self._used(place)
        if found is not None:
            core_class, region = found
            try:
                core_class.clear(region)
            except Exception as error:
                raise base.DriverError(
                    codes.SCRUB_FAILED,
                    f"{place.file_name}: {type(error).__name__}: {error}",
                ) from error
        if place.entry.port is not None:
            dfl.reset(self._nodes / place.entry.port)

    def power_cap_w(self) -> float | None:
        return self._power_cap_w

    def health(self, device: str) -> base.Health:
        try:
            board = self._slot(device).board
        except base.DriverError as error:
            return base.Health(False, error.message)
        if board.manager is not None:
            fault = self._manager(board.manager).fault()
        else:
            fault = dfl.fme_fault(self._platform / str(board.fme))
        for entry in board.regions:
            if not fault and entry.port is not None:
                fault = dfl.port_fault(self._platform / entry.port)
            directory = self._classes / "fpga_region" / entry.region
            if not fault and not directory.is_dir():
                fault = f"region {entry.region} is missing"
        return base.Health(not fault, fault)

    def telemetry(self, device: str) -> base.Telemetry:
        board = self._slot(device).board
        if board.sensors is not None:
            sensors = [
                path
                for path in (self._classes / "hwmon").glob("*")
                if sysfs.read(path / "name") == board.sensors
            ]
        elif board.fme is not None:
            sensors = list((self._platform / board.fme).glob("hwmon/*"))
        else:
            manager = self._classes / "fpga_manager" / str(board.manager)
            sensors = list(manager.glob("device/hwmon/*"))
        return sysfs.telemetry(sensors)

    def _slot(self, device: str, slot: int = 0) -> _Slot:
        board = self._boards.get(device)
        if board is None or not 0 <= slot < len(board.regions):
            raise common.no_such_slot(device, slot)
        return _Slot(board, board.regions[slot], slot)

    def _manager(self, name: str) -> sysfs.Manager:
        return sysfs.Manager(
            self._classes / "fpga_manager" / name, self._firmware_dir
        )

    def _used(
        self, place: _Slot
    ) -> tuple[type[core.RegionCore], core.Region] | None:
        """:returns: class and region of a slot; None if it is empty."""
        accelerator, _ = self._programmed(place)
        known = place.board.accelerators.get(accelerator or "")
        if accelerator is None or known is None:
            return None
        port = place.entry.port
        region = core.Region(
            place.board.name,
            place.number,
            accelerator,
            self._classes / "fpga_region" / place.entry.region,
            None if port is None else self._nodes / port,
        )
        return _load(known.core), region

    def _boot(self) -> str:
        return sysfs.read(self._boot_id) or ""

    def _path(self, place: _Slot) -> pathlib.Path:
        return self._directory / f"{place.file_name}.programmed"

    def _programmed(self, place: _Slot) -> tuple[str | None, str]:
        """:returns: the accelerator in a slot, and what was programmed."""
        with contextlib.suppress(OSError, ValueError):
            text = self._path(place).read_text()
            accelerator, bitstream, boot = text.split("\n")
            # An FPGA loses its configuration when it loses power.
            if boot == self._boot() and self._operates(place.board):
                return accelerator, bitstream
        return None, ""

    def _operates(self, board: boards.Board) -> bool:
        return board.manager is None or self._manager(board.manager).operates

    def _record(self, place: _Slot, *words: str) -> None:
        common.replace_file(self._path(place), "\n".join(words).encode())


def _port(place: _Slot) -> str:
    assert place.entry.port is not None
    return place.entry.port


def _load(path: str) -> type[core.RegionCore]:
    try:
        return core.load(path)
    except accelerators.AcceleratorError as error:
        raise base.DriverError(error.code, error.message) from error


def _contents(
    known: boards.Implementation, file: base.BitstreamFile | None
) -> bytes:
    if file is not None:
        if file.format != formats.BINARY:
            raise base.DriverError(
                codes.BITSTREAM_UNKNOWN,
                f"fpga_region accepts bitstreams in format {formats.BINARY},"
                f" not {file.format!r:.80}",
            )
        return file.read(MAX_FILE_BYTES)
    if known.file is None:
        raise base.DriverError(
            codes.BITSTREAM_UNKNOWN,
            "the boards file sets no 'file' for this accelerator, so a"
            " bitstream from the library is required",
        )
    try:
        return pathlib.Path(known.file).read_bytes()
    except OSError as error:
        raise base.DriverError(
            codes.BITSTREAM_DAMAGED, f"{known.file}: {error.strerror}"
        ) from error
