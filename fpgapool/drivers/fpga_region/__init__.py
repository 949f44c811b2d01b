# SPDX-License-Identifier: Apache-2.0

"""A driver for FPGAs that the Linux kernel programs."""

from fpgapool.drivers.fpga_region.driver import FpgaRegionDriver

__all__ = ["FpgaRegionDriver"]
