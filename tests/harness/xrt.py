# SPDX-License-Identifier: Apache-2.0

"""AMD's runtime XRT, with its stand-in for a board that computes nothing."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

PLATFORM = "Xilinx"
#: Variable without which the runtime looks for boards in this machine.
STAND_IN = "XCL_EMULATION_MODE"

_NOOP = "libxrt_noop.so.2"
_VENDORS = pathlib.Path("/etc/OpenCL/vendors")


def environment(directory: pathlib.Path) -> Mapping[str, str]:
    """Make what the runtime needs, and return variables to set."""
    found = next(pathlib.Path("/usr/lib").glob(f"*/{_NOOP}"), None)
    if found is None:
        raise AssertionError("XRT is missing: install the package libxrt1")
    libraries = directory / "lib"
    libraries.mkdir(parents=True)
    for path in found.parent.glob("libxrt_*.so.2"):
        for name in (path.name, path.name.removesuffix(".2")):
            (libraries / name).symlink_to(path)
    vendors = directory / "vendors"
    vendors.mkdir()
    (vendors / "xilinx.icd").write_text("libxilinxopencl.so.2\n")
    # A machine without its board still has the processor.
    for path in _VENDORS.glob("pocl*.icd"):
        (vendors / path.name).symlink_to(path)
    return {
        STAND_IN: "noop",
        "XILINX_XRT": str(directory),
        "OCL_ICD_VENDORS": str(vendors),
    }
