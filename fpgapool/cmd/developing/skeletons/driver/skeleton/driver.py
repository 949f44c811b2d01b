# SPDX-License-Identifier: Apache-2.0

"""A board that is the processor of the host."""

from __future__ import annotations

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers import base
from fpgapool.vocabulary import codes

BOARD = "skeleton0"
SHAPE = "process"
BUILTIN = "builtin:"
# Of the memory, about: nothing is between it and the cores.
DMA_BYTES_PER_S = 1e10


class SkeletonDriver(base.Driver):
    """One board, whose slots run software cores as fast as they can."""

    def __init__(self, settings):
        self._slots = settings["slots"]
        #: What this process has put into its slot.
        self._programmed = {}

    @classmethod
    def options(cls):
        from oslo_config import cfg

        return [
            cfg.IntOpt(
                "slots", default=2, min=1, max=64, help="Slots of the board."
            )
        ]

    def discover(self):
        slots = tuple(
            base.SlotInfo(number, SHAPE, None) for number in range(self._slots)
        )
        return (
            base.DeviceInfo(
                name=BOARD,
                model="processor",
                dma_bytes_per_s=DMA_BYTES_PER_S,
                programming_time_s=0.0,
                slots=slots,
            ),
        )

    def program(self, device, slot, bitstream, file=None):
        self._check(device, slot)
        if file is not None or not bitstream.startswith(BUILTIN):
            raise base.DriverError(
                codes.BITSTREAM_UNKNOWN, f"a processor cannot use {bitstream}"
            )
        try:
            profile = accelerators.load_profile(
                bitstream.removeprefix(BUILTIN)
            )
            core = accelerators.load_core(profile.core)
        except accelerators.AcceleratorError as error:
            raise base.DriverError(
                codes.BITSTREAM_UNKNOWN, str(error)
            ) from error
        self._programmed[slot] = core
        return profile

    def open(self, device, slot, params):
        self._check(device, slot)
        if slot not in self._programmed:
            raise base.DriverError(
                codes.NOT_PROGRAMMED, f"slot {slot} is empty"
            )
        return self._programmed[slot](params)

    def scrub(self, device, slot):
        # What a session leaves is in its core, which nobody has any more.
        self._check(device, slot)

    def health(self, device):
        return base.Health(device == BOARD)

    def telemetry(self, device):
        self._check(device)
        return base.Telemetry(power_w=None, temperature_c=None)

    def _check(self, device, slot=0):
        if device != BOARD or not 0 <= slot < self._slots:
            raise base.DriverError(
                codes.NO_SUCH_SLOT, f"device {device!r} has no slot {slot}"
            )
