# SPDX-License-Identifier: Apache-2.0

"""A private libvirt daemon, which Nova takes for that of a host."""

from __future__ import annotations

import pathlib
import shlex
import shutil
import socket
import subprocess
import uuid

from tests.services import process
from tests.services.hypervisors import network

_QEMU = "qemu-system-x86_64"
_LIMIT_S = 60

#: What it must not share with other daemons of this machine.
_PLACES = {
    "etc": "/etc/libvirt",
    "run": "/run/libvirt",
    "lib": "/var/lib/libvirt",
    "log": "/var/log/libvirt",
    "cache": "/var/cache/libvirt",
}

_LIBVIRTD_CONF = """\
host_uuid = "{uuid}"
unix_sock_dir = "{socket_directory}"
auth_unix_ro = "none"
auth_unix_rw = "none"
listen_tls = 0
listen_tcp = 1
listen_addr = "{address}"
auth_tcp = "none"
log_outputs = "3:stderr"
"""

# The wrapper makes a device of the network for each machine.
_QEMU_CONF = """\
user = "root"
group = "root"
clear_emulator_capabilities = 0
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
migration_address = "{address}"
migration_host = "{address}"
"""

_START = """\
set -e
hostname {name}
# As after the boot of a host: no machine of before is left.
rm -rf {run}/*
{mounts}
export PATH=/var/lib/libvirt/bin:$PATH
# The devices of this network, not of the machine's.
mount -t sysfs sysfs /sys
SHARED_FILES={shared} LD_PRELOAD={preload} libvirtd --listen \\
    --config /etc/libvirt/libvirtd.conf \\
    --pid-file /run/libvirt/libvirtd.pid &
# The first process collects what daemons leave behind.
wait $!
"""

#: Nova without Neutron gives servers no network; this gives them one.
_WRAPPER = """\
#!/bin/sh
before=
uuid=
for word; do
    [ "$before" != -uuid ] || uuid=$word
    before=$word
done
[ -n "$uuid" ] || exec {qemu} "$@"
first=$(echo "$uuid" | cut -c 1-6)
tap=t{number}-$first
ip link delete "$tap" 2>/dev/null || true
ip tuntap add dev "$tap" mode tap
ip link set dev "$tap" master {bridge} up
mac=$(echo "$first" | sed 's/\\(..\\)\\(..\\)\\(..\\)/52:54:00:\\1:\\2:\\3/')
exec {qemu} "$@" \\
    -netdev "tap,id=pool,ifname=$tap,script=no,downscript=no" \\
    -device "virtio-net-pci,netdev=pool,mac=$mac,addr=0x1e,romfile="
"""


class Libvirtd(process.Service):
    """The daemon of one host. When it is killed, so are the host's machines.

    :param number: of the host, from 1 on.
    :param host_name: what it tells Nova that its host is called.
    :param workspace: where it lives and who cleans up after it.
    :param shared: the directory that all hosts have.
    """

    def __init__(
        self,
        number: int,
        host_name: str,
        workspace: process.Keeper,
        shared: pathlib.Path,
    ) -> None:
        super().__init__(f"libvirtd-{number}", workspace)
        process.find_program("libvirtd", "libvirt-daemon-system")
        qemu = process.find_program(_QEMU, "qemu-system-x86")
        self._host_name = host_name
        self._shared = shared
        self._preload = self.directory / "shared_files.so"
        source = pathlib.Path(__file__).with_name("shared_files.c")
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-o", self._preload, source, "-ldl"],
            timeout=_LIMIT_S,
            check=True,
        )
        #: Where the others send what migrates.
        self.address = f"127.0.0.{10 + number}"
        sockets = self.directory / "sockets"
        self._socket = sockets / "libvirt-sock"
        self.uri = f"qemu:///system?socket={self._socket}"
        for name in (*_PLACES, "sockets"):
            (self.directory / name).mkdir()
        etc = self.directory / "etc"
        shutil.copytree("/etc/libvirt", etc, symlinks=True, dirs_exist_ok=True)
        (etc / "libvirtd.conf").write_text(
            _LIBVIRTD_CONF.format(
                uuid=uuid.uuid4(),
                socket_directory=sockets,
                address=self.address,
            )
        )
        (etc / "qemu.conf").write_text(_QEMU_CONF.format(address=self.address))
        # It has the same path on all hosts.
        wrapper = self.directory / "lib" / "bin" / _QEMU
        wrapper.parent.mkdir()
        wrapper.write_text(
            _WRAPPER.format(qemu=qemu, number=number, bridge=network.BRIDGE)
        )
        wrapper.chmod(0o755)

    def command(self) -> list[str]:
        """Return the command line."""
        mounts = [
            f"mkdir -p {place}\nmount --bind {self.directory / name} {place}"
            for name, place in _PLACES.items()
        ]
        script = _START.format(
            name=shlex.quote(self._host_name),
            run=self.directory / "run",
            shared=self._shared,
            preload=self._preload,
            mounts="\n".join(mounts),
        )
        return [
            *("unshare", "--mount", "--propagation", "private", "--uts"),
            *("--pid", "--fork", "--mount-proc", "--kill-child"),
            *("sh", "-c", script),
        ]

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports: its own is on an address of its own."""
        return ()

    def is_ready(self) -> bool:
        """Tell whether it takes connections."""
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self._socket)) == 0

    def virsh(self, *arguments: str) -> str:
        """Run a command of libvirt's and return what it prints."""
        return subprocess.run(
            ["virsh", "--connect", self.uri, *arguments],
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=True,
        ).stdout
