# SPDX-License-Identifier: Apache-2.0

"""Emulated boards, which return real results at a modelled speed."""

from __future__ import annotations

import collections.abc
import contextlib
import time
import typing

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers import base
from fpgapool.drivers import common
from fpgapool.drivers import documents
from fpgapool.drivers import helper
from fpgapool.drivers.emulator import bitstreams
from fpgapool.drivers.emulator import boards
from fpgapool.drivers.emulator import core
from fpgapool.drivers.emulator import faults
from fpgapool.drivers.emulator import files
from fpgapool.drivers.emulator import pacing
from fpgapool.drivers.emulator import ports
from fpgapool.drivers.emulator import shares
from fpgapool.vocabulary import codes

_ON_PURPOSE = "an injected fault"

_BOARDS_FILE_HELP = """
YAML file that describes the emulated boards of this host: their rates, shapes
and slots. Required if ``[agent] driver`` is ``emulator``.
"""
_CLUSTER_DIR_HELP = """
Directory that all agents with emulated boards on this machine share, so that
their emulated hosts form one cluster, in which remote sessions share the
modelled NICs of both hosts. All agents need the same ``rate_scale`` in their
boards files, and each needs its own ``[DEFAULT] host_uuid``. The driver
creates the directory if it is missing. By default, each host is emulated
alone: its remote sessions share its own NIC, and the NICs of other hosts are
unlimited.
"""

_AMBIENT_C = 25.0
_DEGREES_PER_W = 0.8


class EmulatorDriver(base.Driver):
    """Emulates the boards in a boards file.

    Accelerators compute real results, on the CPU. Each slot is limited to its
    accelerator's peak rate. The slots of a device share its DMA rate, and
    remote sessions share the NICs of both hosts, in a max-min fair way across
    all processes of the cluster. The file is read again when it changes.
    Faults can be switched on and off at run time; see
    :mod:`fpgapool.drivers.emulator.faults`.

    :param settings: ``state_dir``; ``boards_file``, the path of the boards
        file; optionally ``cluster_dir``, a directory shared with the other
        emulated hosts on this machine, which also requires ``host_uuid``.
    :raises base.DriverError: ``INVALID_SETTINGS``.
    """

    @classmethod
    def options(cls) -> collections.abc.Sequence[typing.Any]:
        from oslo_config import cfg

        return (
            cfg.StrOpt("boards_file", help=_BOARDS_FILE_HELP),
            cfg.StrOpt("cluster_dir", help=_CLUSTER_DIR_HELP),
        )

    @classmethod
    def warm_up(
        cls, settings: collections.abc.Mapping[str, typing.Any]
    ) -> None:
        boards.read_boards(settings["boards_file"])
        accelerators.warm_up()

    def __init__(
        self, settings: collections.abc.Mapping[str, typing.Any]
    ) -> None:
        cluster_dir = settings.get("cluster_dir")
        needed = ["boards_file"]
        if cluster_dir is not None:
            needed += ["cluster_dir", "host_uuid"]
        self._directory = common.make_directory("emulator", settings, *needed)
        self._boards_file = settings["boards_file"]
        self._files = files.Files(self._directory, self._boards_file)
        self._helper: helper.Helper | None = None
        try:
            self.has_helper = not self._files.are_apart()
            self._files.faults_dir.mkdir(mode=0o700, exist_ok=True)
            table = shares.ShareTable(cluster_dir or self._directory)
        except OSError as exc:
            raise base.DriverError(
                codes.INVALID_SETTINGS, f"emulator: {exc}"
            ) from exc
        self._ports = ports.Ports(
            table, settings.get("host_uuid") or "", cluster_dir is not None
        )
        self._faults = faults.Injector(self._files, self._asked)
        self._boards = boards.Boards(boards=(), rate_scale=None)
        self._programmed: dict[
            tuple[str, int], tuple[base.Profile, bitstreams.MakeCore]
        ] = {}
        self._traffic: dict[tuple[str, int], base.Traffic] = {}
        # Each slot's pacer, with the arguments from which it was created.
        self._pacers: dict[
            tuple[str, int],
            tuple[
                tuple[base.Traffic, float, float],
                pacing.Pacer | pacing.FreePacer,
            ],
        ] = {}
        self._refresh()

    def discover(self) -> tuple[base.DeviceInfo, ...]:
        return tuple(
            base.DeviceInfo(
                name=board.name,
                model=board.model,
                dma_bytes_per_s=self._boards.scaled(board.dma_bytes_per_s),
                programming_time_s=board.programming_time_s,
                slots=tuple(
                    base.SlotInfo(
                        number,
                        board.shape,
                        self._read_programmed(board, number)[0],
                        self._boards.capacities.get(board.shape),
                    )
                    for number in range(board.slots)
                ),
            )
            for board in self._refresh().boards
        )

    def program(
        self,
        device: str,
        slot: int,
        bitstream: str,
        file: base.BitstreamFile | None = None,
    ) -> base.Profile:
        board = self._board(device, slot)
        capacity = self._boards.capacities.get(board.shape, {})
        if file is None:
            profile, make_core = bitstreams.load_builtin(bitstream)
        else:
            profile, make_core = bitstreams.load_file(file, capacity)
        common.check_shape(profile, board.shape, bitstream)
        dead = self._faults.board_fault(device, (faults.DEAD,))
        if dead is not None:
            raise base.DriverError(
                codes.PROGRAMMING_FAILED, f"{device}: {dead.message}"
            )
        fault = self._faults.strike(
            device, slot, (faults.PROGRAMMING, faults.PROGRAMMING_HANG)
        )
        wanted = (profile.name, bitstream)
        if fault or self._read_programmed(board, slot) != wanted:
            self._write_programmed(device, slot)
            time.sleep(board.programming_time_s)
            _fail_programming(fault)
            self._write_programmed(device, slot, *wanted, board.shape)
        self._programmed[device, slot] = (profile, make_core)
        return profile

    def needs(self, device: str, slot: int) -> base.Needs:
        profiles = accelerators.profile_directories()
        if self.has_helper:
            return base.Needs(readable=profiles)
        boards_dir = self._files.paths[files.BOARDS].parent
        own = self._files.slot_dir(device, slot)
        return base.Needs(
            readable=(*profiles, str(boards_dir.absolute())),
            writable=(str(own), str(self._files.faults_dir)),
        )

    def start_helper(self, device: str, slot: int) -> None:
        self._files.slot_dir(device, slot).mkdir(mode=0o700, exist_ok=True)
        if self.has_helper:
            self._helper = helper.start(
                f"{files.__name__}:duties",
                str(self._directory),
                self._boards_file,
                device,
                slot,
            )

    def expect(self, device: str, slot: int, traffic: base.Traffic) -> None:
        self._traffic[device, slot] = traffic

    def open(
        self,
        device: str,
        slot: int,
        params: collections.abc.Mapping[str, typing.Any],
    ) -> base.Core:
        self._board(device, slot)
        programmed = self._programmed.get((device, slot))
        if programmed is None:
            raise common.not_programmed(device, slot)
        profile, make_core = programmed
        return core.EmulatedCore(
            make_core(params),
            self._pacer(device, slot, profile),
            faults.SessionFaults(self._faults, device, slot),
        )

    def _pacer(
        self, device: str, slot: int, profile: base.Profile
    ) -> pacing.Pacer | pacing.FreePacer:
        traffic = self._traffic.pop((device, slot), base.Traffic())
        shape = self._board(device, slot).shape
        peak_bytes_per_s = self._boards.scaled(profile.peak_in(shape))
        model = (traffic, peak_bytes_per_s, profile.return_ratio)
        kept = self._pacers.get((device, slot))
        # Reuse one pacer for all small tasks of a slot: a new pacer would
        # start with a full token bucket.
        if kept is not None and kept[0] == model and not kept[1].cancelled:
            return kept[1]
        pacer = self._make_pacer(device, slot, model)
        self._pacers[device, slot] = (model, pacer)
        return pacer

    def _make_pacer(
        self, device: str, slot: int, model: tuple[base.Traffic, float, float]
    ) -> pacing.Pacer | pacing.FreePacer:
        if self._boards.rate_scale is None:
            return pacing.FreePacer()
        try:
            stream = self._ports.join(device, slot, *model)
        except shares.TableFull as exc:
            raise base.DriverError(codes.INVALID_SETTINGS, str(exc)) from exc
        return pacing.Pacer(self._ports.table, stream, model[1])

    def scrub(self, device: str, slot: int) -> None:
        # There is nothing to remove: the session's core and buffers no longer
        # exist, and the accelerator stays for the next session. A dead board
        # lost its data when it lost power.
        self._board(device, slot)
        if self._faults.strike(device, slot, (faults.SCRUB,)):
            raise base.DriverError(codes.SCRUB_FAILED, _ON_PURPOSE)

    def health(self, device: str) -> base.Health:
        try:
            self._board(device)
        except base.DriverError as exc:
            return base.Health(False, exc.message)
        fault = self._faults.board_fault(device)
        return base.Health(fault is None, fault.message if fault else "")

    def telemetry(self, device: str) -> base.Telemetry:
        board = self._board(device)
        busy = self._ports.busy_slots(device, time.monotonic_ns())
        power_w = board.idle_power_w + board.active_power_w * busy
        return base.Telemetry(power_w, _AMBIENT_C + _DEGREES_PER_W * power_w)

    def power_cap_w(self) -> float | None:
        return self._refresh().power_cap_w

    def _refresh(self) -> boards.Boards:
        try:
            version = documents.file_version(self._boards_file)
        except OSError as exc:
            raise base.DriverError(
                codes.INVALID_SETTINGS, f"cannot read the boards file: {exc}"
            ) from exc
        try:
            if self._ports.table.mend():
                self._pacers.clear()
                self._ports.declare(self._boards)
        except OSError as exc:
            raise base.DriverError(
                codes.INVALID_SETTINGS, f"emulator: {exc}"
            ) from exc
        if version != self._boards.version:
            asked = self._asked("", 0)
            self._take(
                boards.read_boards(
                    self._boards_file,
                    lambda: files.asked_contents(asked, files.BOARDS),
                )
            )
        return self._boards

    def _take(self, found: boards.Boards) -> None:
        try:
            self._ports.declare(found)
        except shares.TableFull as exc:
            raise base.DriverError(codes.INVALID_SETTINGS, str(exc)) from exc
        self._boards = found
        self._pacers.clear()
        self._faults.set_boards(
            tuple(fault for board in found.boards for fault in board.faults),
            {board.name: board.slots for board in found.boards},
            found.version,
        )

    def _board(self, device: str, slot: int = 0) -> boards.Board:
        for board in self._refresh().boards:
            if board.name == device and 0 <= slot < board.slots:
                return board
        raise common.no_such_slot(device, slot)

    def _asked(self, device: str, slot: int) -> helper.Local:
        """Return what does duties: the helper if this is a worker."""
        return self._helper or helper.Local(self._files.duties(device, slot))

    def _read_programmed(
        self, board: boards.Board, slot: int
    ) -> tuple[str | None, str]:
        """:returns: the accelerator and bitstream name in a slot."""
        record = self._asked(board.name, slot).ask("read_record").decode()
        with contextlib.suppress(ValueError):
            name, bitstream, shape = record.split("\n")
            # If the board's shape has changed, the slot is treated as empty.
            if shape == board.shape:
                return name, bitstream
        return None, ""

    def _write_programmed(self, device: str, slot: int, *words: str) -> None:
        self._asked(device, slot).ask("write_record", words=[*words])


def _fail_programming(fault: faults.Fault | None) -> None:
    if fault is None:
        return
    if fault.kind == faults.PROGRAMMING_HANG:
        core.hang()
    raise base.DriverError(codes.PROGRAMMING_FAILED, _ON_PURPOSE)
