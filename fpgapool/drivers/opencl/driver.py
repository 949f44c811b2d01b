# SPDX-License-Identifier: Apache-2.0

"""The driver for boards and other devices with OpenCL."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import logging
import os
import pathlib
import time
import typing

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers import base
from fpgapool.drivers import common
from fpgapool.drivers import helper
from fpgapool.drivers.opencl import core as cores
from fpgapool.drivers.opencl import devices
from fpgapool.drivers.opencl import duties
from fpgapool.drivers.opencl import probing
from fpgapool.drivers.opencl import waiting
from fpgapool.drivers.opencl.compiling import building
from fpgapool.drivers.opencl.compiling import compiler
from fpgapool.drivers.opencl.contents import bitstreams
from fpgapool.drivers.opencl.contents import xclbin
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import formats

if typing.TYPE_CHECKING:
    from fpgapool.drivers.opencl import programs
    from fpgapool.drivers.opencl import wiping

LOG = logging.getLogger(__name__)

_BOARDS_FILE_HELP = """
YAML file that selects the OpenCL devices of this host for the pool, and sets
how many slots each has. By default, each device of each OpenCL runtime is one
slot.
"""

#: What OpenCL runtimes read besides libraries: their list, and facts about
#: processors and boards.
_READABLE = (
    *("/etc/OpenCL", "/opt"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/driver/nvidia"),
    *("/sys/bus", "/sys/class", "/sys/dev", "/sys/devices", "/sys/module"),
)
#: GPUs, and boards that XRT manages.
_DEVICES = (
    *("/dev/dri/*", "/dev/kfd", "/dev/nvidia*", "/dev/nvidia-caps/*"),
    *("/dev/xclmgmt*", "/dev/xocl*", "/dev/xfpga/*", "/dev/xdma/*"),
)

#: Assumed until a worker has measured it.
_PROGRAMMING_TIME_S = 1.0
#: Time limit for a device's first command, during which its runtime may
#: compile.
_FIRST_LIMIT_S = 60.0


@dataclasses.dataclass(slots=True)
class _Slot:
    """What this process has programmed into a slot."""

    device: devices.Device
    opened: typing.Any
    waiter: waiting.Waiter
    bitstream: str = ""
    profile: base.Profile | None = None
    program: programs.Program | None = None
    wiper: wiping.Wiper | None = None
    core: cores.OpenCLCore | None = None


class OpenCLDriver(base.Driver):
    """Runs kernels on the devices that a boards file selects.

    Only workers load OpenCL runtimes; agents find devices through a separate
    process. Each slot has its own context, in its worker's process.

    :param settings: ``state_dir``; optionally ``boards_file``, the path of the
        boards file. If several agents on one machine share its devices:
        ``binaries_dir``, a directory for what their workers compile, and
        ``is_checked``, whether another agent checks the devices.
    :raises base.DriverError: ``INVALID_SETTINGS``.
    """

    has_helper = True

    @classmethod
    def options(cls) -> collections.abc.Sequence[typing.Any]:
        from oslo_config import cfg

        return (cfg.StrOpt("boards_file", help=_BOARDS_FILE_HELP),)

    @classmethod
    def warm_up(
        cls, settings: collections.abc.Mapping[str, typing.Any]
    ) -> None:
        if settings.get("boards_file") is not None:
            devices.read_boards(settings["boards_file"])

    def __init__(
        self, settings: collections.abc.Mapping[str, typing.Any]
    ) -> None:
        boards_file = settings.get("boards_file")
        self._directory = common.make_directory("opencl", settings)
        self._binaries = pathlib.Path(
            settings.get("binaries_dir") or self._directory / "binaries"
        )
        self._boards, self._power_cap_w = (
            (devices.DEFAULT_BOARDS, None)
            if boards_file is None
            else devices.read_boards(boards_file)
        )
        # Used by an agent.
        self._discovered: dict[str, devices.Device] = {}
        self._watch: probing.Watch | None = None
        self._is_checked = bool(settings.get("is_checked"))
        self._marks: dict[str, int] = {}
        # Used by a worker.
        self._helpers: dict[str, helper.Helper] = {}
        self._opened: dict[str, tuple[devices.Device, typing.Any]] = {}
        self._slots: dict[tuple[str, int], _Slot] = {}

    # Agents.

    def discover(self) -> tuple[base.DeviceInfo, ...]:
        found = [found for found, _ in probing.ask()]
        matched = devices.matched(self._boards, found)
        for board in self._boards:
            if not any(device.board is board for device in matched):
                LOG.warning(
                    "No OpenCL device matches entry %s of the boards file",
                    board.name,
                )
        self._discovered = {device.name: device for device in matched}
        self._watch = probing.Watch(self._boards, matched)
        self._marks = {
            device.name: self._mark(device.name) for device in matched
        }
        return tuple(
            base.DeviceInfo(
                name=device.name,
                model=device.model,
                dma_bytes_per_s=device.board.dma_bytes_per_s,
                programming_time_s=self._programming_time_s(device),
                slots=tuple(
                    base.SlotInfo(number, device.shape, None)
                    for number in range(device.board.slots)
                ),
                # Built-in kernels are source, which needs a compiler.
                builtins=bitstreams.builtins()
                if device.found.has_compiler
                else {},
            )
            for device in matched
        )

    def check(self, device: str) -> base.Health:
        if not self._is_checked:
            if self._watch is None:
                self.discover()
            assert self._watch is not None
            self._watch.check_first()
            self._watch.wait(base.CHECK_TIMEOUT_S)
            self._is_checked = True
        return self.health(device)

    def power_cap_w(self) -> float | None:
        return self._power_cap_w

    def health(self, device: str) -> base.Health:
        if self._watch is None:
            self.discover()
        known, watch = self._discovered.get(device), self._watch
        if known is None or watch is None:
            return base.Health(False, "no such device")
        if not devices.is_on_bus(known.pci):
            return base.Health(False, "the board is not on the PCI bus")
        if self._marks.get(device) != (mark := self._mark(device)):
            self._marks[device] = mark
            watch.check()
        fault = watch.fault(device)
        return base.Health(fault is None, fault or "")

    def telemetry(self, device: str) -> base.Telemetry:
        if not self._discovered:
            self.discover()
        if device not in self._discovered:
            raise common.no_such_slot(device, 0)
        return devices.telemetry(self._discovered[device].pci)

    def _mark(self, device: str) -> int:
        """Return when a device last failed in a worker, or 0."""
        with contextlib.suppress(OSError):
            path = duties.mark_path(self._directory, device)
            return path.stat().st_mtime_ns
        return 0

    def _programming_time_s(self, device: devices.Device) -> float:
        if device.board.programming_time_s is not None:
            return device.board.programming_time_s
        with contextlib.suppress(OSError, ValueError):
            path = duties.time_path(self._directory, device.name)
            return float(path.read_text())
        return _PROGRAMMING_TIME_S

    # Workers.

    def needs(self, device: str, slot: int) -> base.Needs:
        named = [
            place
            for name in (*compiler.NAMING, "XILINX_XRT")
            for place in os.environ.get(name, "").split(os.pathsep)
            if os.path.isabs(place)
        ]
        return base.Needs(
            readable=(
                *_READABLE,
                *accelerators.profile_directories(),
                *named,
            ),
            writable=(building.scratch(self._directory, f"{device}.{slot}"),),
            devices=_DEVICES,
            # PoCL links a kernel when it is first called.
            calls=("execve", "fork", "vfork"),
        )

    def start_helper(self, device: str, slot: int) -> None:
        self._helpers[device] = helper.start(
            f"{duties.__name__}:of_device", *self._duties_of(device)
        )
        building.prepare(self._directory, f"{device}.{slot}")

    def _duties_of(self, device: str) -> tuple[str, str, str]:
        return str(self._directory), str(self._binaries), device

    def _asked(self, device: str) -> helper.Local:
        """Return what does duties: the helper if this is a worker."""
        return self._helpers.get(device) or helper.Local(
            duties.of_device(*self._duties_of(device))
        )

    def program(
        self,
        device: str,
        slot: int,
        bitstream: str,
        file: base.BitstreamFile | None = None,
    ) -> base.Profile:
        known, opened = self._open_device(device, slot)
        # Imported here so that only workers load the runtimes.
        from fpgapool.drivers.opencl import platforms
        from fpgapool.drivers.opencl import programs

        key = device, slot
        there = self._slots.get(key)
        if there is None:
            there = self._slots[key] = _Slot(
                known,
                platforms.part(opened, known, slot),
                waiting.Waiter(known.board.hang_min_s),
            )
        elif there.bitstream == bitstream and there.profile is not None:
            return there.profile
        loaded = (
            bitstreams.load_builtin(bitstream)
            if file is None
            else bitstreams.load_file(file)
        )
        _check_fits(known, loaded, bitstream)
        ask = self._asked(device).ask
        builder = building.Builder(there.opened, known.found, ask)
        began_s = time.monotonic()
        try:
            code = builder.code(loaded)
            if loaded.kind == formats.XCLBIN:
                # A board holds only one xclbin, so the previous one is lost.
                there.bitstream, there.program = "", None
            program = programs.Program(
                there.opened,
                loaded.manifest,
                code,
                known.memory_bytes(slot),
                known.instance(slot),
            )
            there.waiter.set_limit(max(known.board.hang_min_s, _FIRST_LIMIT_S))
            if there.wiper is None:
                there.wiper = builder.wiper(there.waiter.wait)
            if there.wiper is not None:
                # If the device does not respond, this fails.
                there.wiper.wipe()
        except exceptions.CodedError as exc:
            if exc.code in codes.DEVICE_FAULTS:
                self._mark_failure(device)
            if exc.code == codes.PROCESS_SPENT:
                there.waiter.fault = exc.message
            raise base.DriverError(exc.code, exc.message) from exc
        taken_s = time.monotonic() - began_s
        LOG.info(
            "Programmed %s into slot %d of %s in %.3f s",
            bitstream,
            slot,
            device,
            taken_s,
        )
        self._tell_agent(device, "note_time", taken_s=taken_s)
        there.bitstream, there.profile = bitstream, loaded.profile
        there.program = program
        return loaded.profile

    def open(
        self,
        device: str,
        slot: int,
        params: collections.abc.Mapping[str, typing.Any],
    ) -> base.Core:
        from fpgapool.drivers.opencl import runner as runners

        there = self._slots.get((device, slot))
        if there is None or there.program is None or there.profile is None:
            self._open_device(device, slot)
            raise common.not_programmed(device, slot)
        board = there.device.board
        there.waiter.set_limit(board.hang_min_s)
        with self._marking_failures(device):
            # In a group, the previous task's core still exists.
            _clear(there)
            runner = runners.Runner(
                there.program,
                params,
                cores.piece_bytes(there.profile, there.device.found.unified),
                wait=there.waiter.wait,
            )
            there.core = cores.OpenCLCore(
                runner,
                there.profile,
                there.waiter,
                board.hang_min_s,
                # All slots of the board may compute at the same time.
                board.hang_factor * board.slots,
            )
        return there.core

    def scrub(self, device: str, slot: int) -> None:
        there = self._slots.get((device, slot))
        if there is None:
            self._open_device(device, slot)
            return
        there.waiter.set_limit(there.device.board.hang_min_s)
        try:
            if there.waiter.fault is not None:
                raise base.DriverError(codes.PROCESS_SPENT, there.waiter.fault)
            _clear(there)
            if there.wiper is not None:
                there.wiper.wipe()
        except base.DriverError as exc:
            self._mark_failure(device)
            if exc.code == codes.SCRUB_FAILED:
                raise
            # When the process ends, its runtime frees all device memory.
            raise base.DriverError(codes.PROCESS_SPENT, exc.message) from exc

    def _open_device(
        self, device: str, slot: int
    ) -> tuple[devices.Device, typing.Any]:
        """Find a device of this process's runtimes."""
        if device not in self._opened:
            building.prepare(self._directory, f"{device}.{slot}")
            from fpgapool.drivers.opencl import platforms

            listed = dict(platforms.listed())
            for each in devices.matched(self._boards, listed):
                self._opened[each.name] = each, listed[each.found]
        if device not in self._opened or not (
            0 <= slot < self._opened[device][0].board.slots
        ):
            raise common.no_such_slot(device, slot)
        return self._opened[device]

    @contextlib.contextmanager
    def _marking_failures(self, device: str) -> collections.abc.Iterator[None]:
        try:
            yield
        except exceptions.CodedError as exc:
            if exc.code in codes.DEVICE_FAULTS:
                self._mark_failure(device)
            raise

    def _mark_failure(self, device: str) -> None:
        """Make the agent check a device."""
        self._tell_agent(device, "mark_failure")

    def _tell_agent(self, device: str, duty: str, **members: object) -> None:
        try:
            self._asked(device).ask(duty, **members)
        except base.DriverError as exc:
            LOG.warning("%s of %s failed: %s", duty, device, exc.message)


def _clear(there: _Slot) -> None:
    """Overwrite data that the last session or task left behind."""
    if there.core is not None:
        core = there.core
        core.cancel()
        core.runner.clear()
        there.core = None


def _check_fits(
    known: devices.Device, loaded: bitstreams.Bitstream, name: str
) -> None:
    """Reject a bitstream for a different kind of device."""
    common.check_shape(loaded.profile, known.shape, name)
    if loaded.kind == formats.XCLBIN:
        try:
            found = xclbin.parse(loaded.code)
            found.check_fits(
                known.found.name,
                devices.interface_uuid(known.pci, found.interface_uuid),
            )
        except xclbin.XclbinError as exc:
            raise base.DriverError(exc.code, exc.message) from exc
    elif loaded.kind == formats.OPENCL_SOURCE and not known.found.has_compiler:
        raise base.DriverError(
            codes.BITSTREAM_UNFIT,
            f"{known.name} has no compiler, so it cannot use {name!r}, which "
            "is OpenCL source; it needs a binary",
        )
