# SPDX-License-Identifier: Apache-2.0

"""A driver that emulates boards."""

from fpgapool.drivers.emulator.driver import EmulatorDriver

__all__ = ["EmulatorDriver"]
