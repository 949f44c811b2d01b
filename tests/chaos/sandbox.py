# SPDX-License-Identifier: Apache-2.0

"""A network and a disk of its own for a host, where the system allows it.

They belong to a process that does nothing, and are gone when it and all that
run in them have ended, however a run ends.
"""

from __future__ import annotations

import functools
import itertools
import os
import pathlib
import subprocess

from tests.services import process

DISK_BYTES = 4 << 20
_COMMAND_LIMIT_S = 20
#: Reserved for measurements between networks; 30 bits are one cable.
_NETWORK = "198.18"
_CABLES = 1 << 14

_numbers = itertools.count(1)


class _Holder(process.Service):
    """Keeps the namespaces."""

    def command(self) -> list[str]:
        return [
            *("unshare", "--net", "--mount", "--propagation", "private"),
            *("sleep", "infinity"),
        ]

    def is_ready(self) -> bool:
        assert self._process is not None
        entry = pathlib.Path(f"/proc/{self._process.pid}")
        own = pathlib.Path("/proc/self/ns/mnt").readlink()
        return (entry / "ns" / "mnt").readlink() != own and (
            (entry / "comm").read_text().strip() == "sleep"
        )

    def ports(self) -> tuple[int, ...]:
        return ()

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._process is not None
        return self._process.pid


def _run(*command: str) -> None:
    done = subprocess.run(
        command,
        env={"PATH": process.SEARCH_PATH},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=_COMMAND_LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise process.ServiceError(f"{' '.join(command)}: {done.stderr}")


class Sandbox:
    """A host's network and disk.

    :raises process.ServiceError: where the system does not allow it.
    """

    def __init__(self, name: str, workspace: process.Workspace) -> None:
        self._holder = _Holder(f"{name}-sandbox", workspace)
        self._holder.start()
        pid = self._holder.pid
        number = next(_numbers)
        self._cable = f"fc{pid}"
        # Runs side by side have other processes, so other addresses.
        cable = (os.getpid() * 16 + number) % _CABLES
        prefix = f"{_NETWORK}.{cable // 64}"
        #: Of the machine, and of the host.
        self.outside = f"{prefix}.{cable % 64 * 4 + 1}"
        self.inside = f"{prefix}.{cable % 64 * 4 + 2}"
        #: What runs a command in it.
        self.prefix = [
            "nsenter",
            f"--net=/proc/{pid}/ns/net",
            f"--mount=/proc/{pid}/ns/mnt",
        ]
        _run(
            *("ip", "link", "add", self._cable, "type", "veth"),
            *("peer", "name", "data0", "netns", str(pid)),
        )
        _run("ip", "address", "add", f"{self.outside}/30", "dev", self._cable)
        inside = [*self.prefix, "ip"]
        _run(*inside, "address", "add", f"{self.inside}/30", "dev", "data0")
        for device in ("lo", "data0"):
            _run(*inside, "link", "set", device, "up")
        _run("ip", "link", "set", self._cable, "up")
        change = ["tc", "qdisc", "replace", "dev"]
        self._ends = [
            [*change, self._cable],
            [*self.prefix, *change, "data0"],
        ]
        self.plug_in()

    def unplug(self) -> None:
        """Cut the network: what is sent gets lost, and nobody is told."""
        for end in self._ends:
            # A queue without room. With the device down, the machine would
            # send by another one what is meant for the host.
            _run(*end, "root", "pfifo", "limit", "0")

    def plug_in(self) -> None:
        """Undo :meth:`unplug`; harmless if it was not called."""
        for end in self._ends:
            _run(*end, "root", "pfifo", "limit", "1000")

    def mount(self, directory: pathlib.Path) -> None:
        """Give a directory a small disk, which only the host sees."""
        self._directory = directory
        options = f"size={DISK_BYTES},mode=755"
        _run(
            *self.prefix,
            *("mount", "-t", "tmpfs", "-o", options, "disk", str(directory)),
        )

    def fill(self) -> None:
        """Leave no room on the disk."""
        try:
            with self._ballast().open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
        except OSError:
            return

    def make_room(self) -> None:
        """Undo :meth:`fill`."""
        self._ballast().unlink(missing_ok=True)

    def _ballast(self) -> pathlib.Path:
        root = f"/proc/{self._holder.pid}/root"
        return pathlib.Path(f"{root}{self._directory}/ballast")

    def close(self) -> None:
        """Give it back."""
        self._holder.kill()


@functools.cache
def available() -> bool:
    """Tell whether the system allows it."""
    if os.geteuid() != 0:
        return False
    with process.Workspace() as workspace:
        try:
            sandbox = Sandbox("probe", workspace)
            directory = workspace.path / "disk"
            directory.mkdir()
            sandbox.mount(directory)
            sandbox.close()
        except (process.ServiceError, OSError):
            return False
    return True
