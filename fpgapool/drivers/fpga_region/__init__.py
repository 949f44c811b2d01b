# SPDX-License-Identifier: Apache-2.0

"""The driver of FPGAs that the Linux kernel programs."""

from fpgapool.drivers.fpga_region.driver import FpgaRegionDriver

__all__ = ["FpgaRegionDriver"]
