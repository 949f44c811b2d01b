#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Boards that exist on paper: real results at modelled speed."""

from __future__ import annotations

import collections.abc
import contextlib
import os
import pathlib
import time
import typing

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers import base
from fpgapool.drivers.emulator import boards
from fpgapool.drivers.emulator import pacing

#: Bitstreams of this prefix are the built-in accelerators.
BUILTIN_PREFIX = "builtin:"

_AMBIENT_C = 25.0
_DEGREES_PER_W = 0.8


class EmulatorDriver(base.Driver):
    """Emulates the boards of a boards file.

    Accelerators compute for real on the CPU. Each slot is held to the peak
    rate of its accelerator and the slots of a device share its DMA rate,
    max-min fair over their processes. The file is read again when it has
    changed, so faults can be switched on and off while it runs.

    :param settings: ``state_dir``, and ``boards_file``, the path of the
        boards file.
    :raises base.DriverError: ``INVALID_SETTINGS``.
    """

    def __init__(
        self, settings: collections.abc.Mapping[str, typing.Any]
    ) -> None:
        for name in ("state_dir", "boards_file"):
            if not isinstance(settings.get(name), str) or not settings[name]:
                raise base.DriverError(
                    base.INVALID_SETTINGS,
                    f"the emulator needs the setting {name!r}",
                )
        self._boards_file = settings["boards_file"]
        self._directory = pathlib.Path(settings["state_dir"]) / "emulator"
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise base.DriverError(
                base.INVALID_SETTINGS, f"{self._directory}: {exc}"
            ) from exc
        self._version: tuple[int, int, int] | None = None
        self._boards = boards.Boards(None, ())
        self._programmed: dict[
            tuple[str, int], tuple[base.Profile, type[base.Core]]
        ] = {}
        self._refresh()

    def discover(self) -> tuple[base.DeviceInfo, ...]:
        return tuple(
            base.DeviceInfo(
                name=board.name,
                model=board.model,
                dma_bytes_per_s=self._scaled(board.dma_bytes_per_s),
                programming_time_s=board.programming_time_s,
                slots=tuple(
                    base.SlotInfo(
                        number,
                        board.shape,
                        self._read_programmed(board.name, number),
                    )
                    for number in range(board.slots)
                ),
            )
            for board in self._refresh().boards
        )

    def program(self, device: str, slot: int, bitstream: str) -> base.Profile:
        board = self._board(device, slot)
        profile = _profile(bitstream)
        if profile.shapes and board.shape not in profile.shapes:
            raise base.DriverError(
                base.BITSTREAM_UNFIT,
                f"{bitstream!r} fits {', '.join(profile.shapes)}, "
                f"not {board.shape}",
            )
        # Found here, because searching would delay the opening of a session.
        core_class = accelerators.load_core(profile.core)
        recorded = self._read_programmed(device, slot)
        if recorded != profile.name or slot in board.faults.programming:
            self._write_programmed(device, slot, None)
            time.sleep(board.programming_time_s)
            if slot in board.faults.programming:
                raise base.DriverError(
                    base.PROGRAMMING_FAILED, "a fault of the boards file"
                )
            self._write_programmed(device, slot, profile.name)
        self._programmed[device, slot] = (profile, core_class)
        return profile

    def open(
        self,
        device: str,
        slot: int,
        params: collections.abc.Mapping[str, typing.Any],
    ) -> base.Core:
        board = self._board(device, slot)
        programmed = self._programmed.get((device, slot))
        if programmed is None:
            raise base.DriverError(
                base.NOT_PROGRAMMED, f"slot {slot} of {device} is empty"
            )
        profile, core_class = programmed
        core = core_class(params)
        if self._boards.rate_scale is None:
            return core
        pacer = pacing.Pacer(
            self._table(board),
            slot,
            self._scaled(profile.peak_bytes_per_s),
            self._scaled(board.dma_bytes_per_s),
        )
        return PacedCore(core, pacer)

    def scrub(self, device: str, slot: int) -> None:
        # The session's core and buffers belong to its process and are gone
        # with them; the accelerator stays for the next holder.
        if slot in self._board(device, slot).faults.scrub:
            raise base.DriverError(
                base.SCRUB_FAILED, "a fault of the boards file"
            )

    def health(self, device: str) -> base.Health:
        try:
            board = self._board(device)
        except base.DriverError as exc:
            return base.Health(False, exc.message)
        if board.faults.unhealthy is not None:
            return base.Health(False, board.faults.unhealthy)
        return base.Health(True)

    def telemetry(self, device: str) -> base.Telemetry:
        board = self._board(device)
        busy = self._table(board).busy_peaks_bytes_per_s(time.monotonic_ns())
        power_w = board.idle_power_w + board.active_power_w * len(busy)
        return base.Telemetry(power_w, _AMBIENT_C + _DEGREES_PER_W * power_w)

    def _scaled(self, bytes_per_s: float) -> float:
        scale = self._boards.rate_scale
        return bytes_per_s if scale is None else bytes_per_s * scale

    def _table(self, board: boards.Board) -> pacing.ShareTable:
        return pacing.ShareTable(
            self._directory / f"{board.name}.shm", board.slots
        )

    def _refresh(self) -> boards.Boards:
        try:
            found = os.stat(self._boards_file)
        except OSError as exc:
            raise base.DriverError(
                base.INVALID_SETTINGS, f"boards file: {exc}"
            ) from exc
        version = (found.st_ino, found.st_mtime_ns, found.st_size)
        if version != self._version:
            self._boards = boards.read_boards(self._boards_file)
            self._version = version
        return self._boards

    def _board(self, device: str, slot: int = 0) -> boards.Board:
        for board in self._refresh().boards:
            if board.name == device and 0 <= slot < board.slots:
                return board
        raise base.DriverError(
            base.NO_SUCH_SLOT, f"no slot {slot} of a device {device!r}"
        )

    def _record_path(self, device: str, slot: int) -> pathlib.Path:
        return self._directory / f"{device}.{slot}.programmed"

    def _read_programmed(self, device: str, slot: int) -> str | None:
        with contextlib.suppress(OSError):
            return self._record_path(device, slot).read_text() or None
        return None

    def _write_programmed(
        self, device: str, slot: int, name: str | None
    ) -> None:
        path = self._record_path(device, slot)
        # Replaced, not rewritten: the agent reads it at any time.
        fresh = path.with_suffix(".new")
        try:
            fresh.write_text(name or "")
            fresh.replace(path)
        except OSError as exc:
            raise base.DriverError(
                base.PROGRAMMING_FAILED, f"{path}: {exc}"
            ) from exc


class PacedCore(base.Core):
    """A core held to a modelled rate.

    :param core: what computes.
    :param pacer: what holds it back.
    """

    def __init__(self, core: base.Core, pacer: pacing.Pacer) -> None:
        self._core = core
        self._pacer = pacer

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        # Computing counts as part of the modelled time.
        self._pacer.start(len(chunk_in))
        output_bytes = self._core.process(chunk_in, chunk_out, offset_bytes)
        self._pacer.finish(len(chunk_in))
        return output_bytes

    def finish(self, chunk_out: memoryview) -> int:
        return self._core.finish(chunk_out)

    def max_output_bytes(self, input_bytes: int) -> int:
        return self._core.max_output_bytes(input_bytes)

    def cancel(self) -> None:
        self._pacer.cancel()


def _profile(bitstream: str) -> base.Profile:
    name = bitstream.removeprefix(BUILTIN_PREFIX)
    if name == bitstream:
        raise base.DriverError(
            base.BITSTREAM_UNKNOWN,
            f"the emulator knows {BUILTIN_PREFIX}<accelerator>, "
            f"not {bitstream!r}",
        )
    try:
        return accelerators.load_profile(name)
    except accelerators.AcceleratorError as exc:
        raise base.DriverError(base.BITSTREAM_UNKNOWN, exc.message) from exc
