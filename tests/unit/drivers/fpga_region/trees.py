# SPDX-License-Identifier: Apache-2.0

"""A temporary tree that looks like a kernel's: managers, regions, DFL."""

from __future__ import annotations

import ctypes
import errno
import json
import pathlib
import struct
import uuid

from fpgapool.drivers.fpga_region import dfl
from fpgapool.drivers.fpga_region import driver
from fpgapool.drivers.fpga_region import sysfs

CORES = "tests.unit.drivers.fpga_region.cores"
INTERFACE = uuid.UUID("9926ab6d-6c92-5a68-aabc-a7d84c545738")

MANAGER_BOARDS = f"""
boards:
- name: kria0
  model: kr260
  manager: fpga0
  sensors: ina260
  accelerators:
    copy: {{core: "{CORES}:CopyCore", file: "@/copy.bin"}}
    aes: {{core: "{CORES}:DirtyCore", file: "@/copy.bin"}}
    sha: {{core: "{CORES}:NoRegionCore", file: "@/copy.bin"}}
    fft: {{core: "{CORES}:CopyCore"}}
    copy@p1: {{core: "{CORES}:CopyCore"}}
  regions:
  - {{region: region0, shape: rp0}}
  - {{region: region1, shape: rp1}}
"""

DFL_BOARDS = f"""
boards:
- name: pac0
  fme: dfl-fme.0
  accelerators:
    copy: {{core: "{CORES}:CopyCore", file: "@/copy.gbs"}}
  regions:
  - {{region: region2, port: dfl-port.0, shape: pac}}
"""


def green(
    payload: bytes = b"partial bitstream", interface: object = None
) -> bytes:
    """Make a green bitstream."""
    image = {"interface-uuid": str(interface or INTERFACE), "power": 0}
    metadata = json.dumps({"version": 1, "afu-image": image}).encode()
    magic = b"XeonFPGA\xb7GBSv001"
    return magic + struct.pack("<I", len(metadata)) + metadata + payload


class Tree:
    """The tree, and what the kernel does in it.

    :ivar programmed: contents of the files, with the flags or the port.
    :ivar resets: the number of resets of ports.
    :ivar refuses: whether the FPGA does not take the next file.
    """

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.programmed: list[tuple[bytes, str]] = []
        self.resets = 0
        self.refuses = False
        self.firmware = root / "lib" / "firmware"
        self.firmware.mkdir(parents=True)
        for name, text in {
            "class/fpga_manager/fpga0/state": "unknown",
            "class/fpga_manager/fpga0/status": "",
            "class/fpga_manager/fpga0/flags": "0",
            "class/fpga_manager/fpga0/firmware": "",
            "class/fpga_region/region0/compat_id": "",
            "class/fpga_region/region1/compat_id": "",
            "class/fpga_region/region2/compat_id": INTERFACE.hex,
            "class/hwmon/hwmon0/name": "cpu",
            "class/hwmon/hwmon0/power1_input": "90000000",
            "class/hwmon/hwmon1/name": "ina260",
            "class/hwmon/hwmon1/power1_input": "7250000",
            "class/hwmon/hwmon1/temp1_input": "41500",
            "class/hwmon/hwmon1/temp2_input": "39000",
            "bus/platform/devices/dfl-fme.0/ports_num": "1",
            "bus/platform/devices/dfl-fme.0/errors/fme_errors": "0x0",
            "bus/platform/devices/dfl-fme.0/errors/catfatal_errors": "0x0",
            "bus/platform/devices/dfl-fme.0/hwmon/hwmon2/name": "dfl_power",
            "bus/platform/devices/dfl-fme.0/hwmon/hwmon2/power1_input": (
                "21000000"
            ),
            "bus/platform/devices/dfl-port.0/id": "0x1",
            "bus/platform/devices/dfl-port.0/power_state": "0x0",
            "bus/platform/devices/dfl-port.0/errors/errors": "0x0",
        }.items():
            self.write(f"sys/{name}", text)
        for name in ("dfl-fme.0", "dfl-port.0"):
            self.write(f"dev/{name}", "")
        self.boot("first")
        (root / "copy.bin").write_bytes(b"copy")
        (root / "copy.gbs").write_bytes(green())

    def write(self, name: str, text: str) -> None:
        """Write an attribute, as the kernel does."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    def boot(self, boot_id: str) -> None:
        """Start the host once more."""
        self.write("proc/sys/kernel/random/boot_id", boot_id)

    def state(self, text: str) -> None:
        """Bring the FPGA manager into a state."""
        self.write("sys/class/fpga_manager/fpga0/state", text)

    def settings(self, text: str) -> dict[str, str]:
        """Return the options of a driver."""
        path = self.root / "boards.yaml"
        path.write_text(text.replace("@/", f"{self.root}/"))
        return {
            "boards_file": str(path),
            "firmware_dir": str(self.firmware),
            "root_dir": str(self.root),
        }

    def driver(self, text: str) -> driver.FpgaRegionDriver:
        """Make a driver."""
        state_dir = str(self.root / "state")
        return driver.FpgaRegionDriver(
            {"state_dir": state_dir, **self.settings(text)}
        )

    def play_kernel(self, monkeypatch) -> None:
        """Do what the kernel does when its files are written."""
        write = sysfs.Manager._write

        def write_and_act(manager, attribute, value):
            write(manager, attribute, value)
            if attribute == "firmware":
                self._load(value)

        monkeypatch.setattr(sysfs.Manager, "_write", write_and_act)
        monkeypatch.setattr(dfl.fcntl, "ioctl", self._ioctl)

    def _load(self, name: str) -> None:
        flags = self.root / "sys/class/fpga_manager/fpga0/flags"
        contents = (self.firmware / name).read_bytes()
        self.programmed.append((contents, flags.read_text().strip()))
        if self.refuses:
            self.state("write error")
            status = "reconfig CRC error"
            self.write("sys/class/fpga_manager/fpga0/status", status)
            raise OSError(errno.EINVAL, "Invalid argument")
        self.state("operating")

    def _ioctl(self, descriptor: int, request: int, argument: bytes) -> int:
        if self.refuses:
            raise OSError(errno.EIO, "Input/output error")
        if request == 0xB640:
            self.resets += 1
        else:
            assert request == 0xB680
            size, flags, port, length, address = struct.unpack(
                "<IIIIQ", argument
            )
            assert (size, flags) == (24, 0)
            contents = ctypes.string_at(address, length)
            self.programmed.append((contents, f"port {port}"))
        return 0
