# SPDX-License-Identifier: Apache-2.0

"""FPGAs whose regions the Linux kernel programs."""

from __future__ import annotations

import collections.abc
import dataclasses
import pathlib
import typing

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers import base
from fpgapool.drivers import common
from fpgapool.drivers import helper
from fpgapool.drivers.fpga_region import boards
from fpgapool.drivers.fpga_region import core
from fpgapool.drivers.fpga_region import dfl
from fpgapool.drivers.fpga_region import sysfs
from fpgapool.drivers.fpga_region import writing
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import formats
from fpgapool.vocabulary import names

_BOARDS_FILE_HELP = """
YAML file that describes the FPGAs of this host: their managers, regions,
shapes and accelerators. Required if ``[agent] driver`` is ``fpga_region``.
"""
_FIRMWARE_DIR_HELP = """
Directory in which the kernel looks for firmware. The agent's user must be able
to write to it: while the driver programs a region, it keeps the bitstream file
there. The kernel parameter ``firmware_class.path`` adds a directory to
``/lib/firmware``. Boards with a DFL do not need this directory.
"""
_ROOT_DIR_HELP = """
Directory that contains ``sys``, ``dev`` and ``proc``. Change it only for
tests.
"""


class FpgaRegionDriver(base.Driver):
    """Programs regions through FPGA managers or a DFL.

    The operator is responsible for the contents of regions, and provides the
    class that transfers the data; see :class:`core.RegionCore`. The boards
    file is read once.

    :param settings: ``state_dir``, and the options; optionally
        ``signature_required`` and ``trusted_keys_dir``.
    :raises base.DriverError: ``INVALID_SETTINGS``.
    """

    has_helper = True

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

    @classmethod
    def warm_up(
        cls, settings: collections.abc.Mapping[str, typing.Any]
    ) -> None:
        boards.read_boards(settings["boards_file"])

    def __init__(
        self, settings: collections.abc.Mapping[str, typing.Any]
    ) -> None:
        directory = common.make_directory(
            "fpga_region", settings, "boards_file", "firmware_dir", "root_dir"
        )
        self._host = writing.Host(
            directory,
            pathlib.Path(settings["firmware_dir"]),
            pathlib.Path(settings["root_dir"]),
            settings.get("trusted_keys_dir"),
            bool(settings.get("signature_required")),
        )
        self._classes = self._host.root / "sys" / "class"
        found, self._power_cap_w = boards.read_boards(settings["boards_file"])
        self._boards = {board.name: board for board in found}
        # Used by a worker.
        self._settings = dict(settings)
        self._helpers: dict[str, helper.Helper] = {}
        self._known: dict[str, str] = {}

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
                        self._writer(
                            writing.Slot(board, entry, number)
                        ).programmed()[0],
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
        ask = self._asked(place).ask
        if file is None:
            ask("program_own", accelerator=accelerator)
        else:
            ask(
                "program_file",
                _contents(file),
                accelerator=accelerator,
                signature=file.signature,
            )
        self._known[place.file_name] = accelerator
        return profile

    def needs(self, device: str, slot: int) -> base.Needs:
        entry = self._slot(device, slot).entry
        node = () if entry.port is None else (self._host.node(entry.port),)
        return base.Needs(
            readable=(
                *accelerators.profile_directories(),
                str(self._host.region(entry.region)),
            ),
            devices=(*map(str, node), *entry.devices),
        )

    def start_helper(self, device: str, slot: int) -> None:
        place = self._slot(device, slot)
        self._helpers[place.file_name] = helper.start(
            f"{__name__}:_duties", self._settings, device, slot
        )

    def _writer(self, place: writing.Slot) -> writing.Writer:
        return writing.Writer(self._host, place)

    def _asked(self, place: writing.Slot) -> helper.Local:
        """Return what does duties: the helper if this is a worker."""
        return self._helpers.get(place.file_name) or helper.Local(
            self._writer(place).duties()
        )

    def open(
        self,
        device: str,
        slot: int,
        params: collections.abc.Mapping[str, typing.Any],
    ) -> base.Core:
        place = self._slot(device, slot)
        found = _used(self._host, place, self._find(place))
        if found is None:
            raise common.not_programmed(device, slot)
        core_class, region = found
        return core_class(params, region)

    def scrub(self, device: str, slot: int) -> None:
        place = self._slot(device, slot)
        spent = None
        try:
            accelerator = self._find(place)
        except base.DriverError as error:
            # Without its helper, a worker still knows what it has used.
            accelerator, spent = self._known.get(place.file_name, ""), error
        found = _used(self._host, place, accelerator)
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
            dfl.reset(self._host.node(place.entry.port))
        if spent is not None:
            raise spent

    def power_cap_w(self) -> float | None:
        return self._power_cap_w

    def health(self, device: str) -> base.Health:
        try:
            board = self._slot(device).board
        except base.DriverError as error:
            return base.Health(False, error.message)
        if board.manager is not None:
            fault = self._host.manager(board.manager).fault()
        else:
            fault = dfl.fme_fault(self._host.platform / str(board.fme))
        for entry in board.regions:
            if not fault and entry.port is not None:
                fault = dfl.port_fault(self._host.platform / entry.port)
            directory = self._host.region(entry.region)
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
            sensors = list((self._host.platform / board.fme).glob("hwmon/*"))
        else:
            manager = self._classes / "fpga_manager" / str(board.manager)
            sensors = list(manager.glob("device/hwmon/*"))
        return sysfs.telemetry(sensors)

    def _slot(self, device: str, slot: int = 0) -> writing.Slot:
        board = self._boards.get(device)
        if board is None or not 0 <= slot < len(board.regions):
            raise common.no_such_slot(device, slot)
        return writing.Slot(board, board.regions[slot], slot)

    def _find(self, place: writing.Slot) -> str:
        """Return the accelerator in a slot; empty if there is none."""
        return self._asked(place).ask("find_programmed").decode()


def _duties(
    settings: collections.abc.Mapping[str, typing.Any], device: str, slot: int
) -> collections.abc.Mapping[str, helper.Duty]:
    """Return the duties of a slot's helper."""
    driver = FpgaRegionDriver(settings)
    return driver._writer(driver._slot(device, slot)).duties()


def _used(
    host: writing.Host, place: writing.Slot, accelerator: str
) -> tuple[type[core.RegionCore], core.Region] | None:
    """:returns: class and region of a slot; None if it is empty."""
    known = place.board.accelerators.get(accelerator)
    if known is None:
        return None
    region = core.Region(
        place.board.name,
        place.number,
        accelerator,
        host.region(place.entry.region),
        None if place.entry.port is None else host.node(place.entry.port),
    )
    return _load(known.core), region


def _load(path: str) -> type[core.RegionCore]:
    try:
        return core.load(path)
    except accelerators.AcceleratorError as error:
        raise base.DriverError(error.code, error.message) from error


def _contents(file: base.BitstreamFile) -> bytes:
    if file.format != formats.BINARY:
        raise base.DriverError(
            codes.BITSTREAM_UNKNOWN,
            f"fpga_region accepts bitstreams in format {formats.BINARY},"
            f" not {file.format!r:.80}",
        )
    return file.read(writing.MAX_FILE_BYTES)
