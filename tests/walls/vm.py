# SPDX-License-Identifier: Apache-2.0

"""Runs tests on Debian's own kernel, in a virtual machine with cgroup v2.

The machine has this one's files, read-only, and its own /tmp, /run and /var.
Its systemd runs the tests of this directory as root and then as ``nobody``, in
units with ``Delegate=``.

usage: python -m tests.walls.vm [ARGUMENT OF PYTEST]...
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable

from tests.services.hypervisors import initramfs
from tests.unit.tree import ROOT

_PLACE = ROOT / "build/vm"
_MEMORY_MIB = 4096
_LIMIT_S = 2400

#: What the kernel needs to reach the files, in the order of their needs.
_MODULES = (
    "virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev"
    " virtio_pci 9pnet 9pnet_virtio netfs fscache 9p"
).split()

_ENDED = re.compile(r"^the tests ended with status (\d+)$")

#: The first process: it makes the machine's files, and becomes systemd.
_INIT = """\
#!/bin/busybox sh
PATH=/bin
for module in {modules}; do
    busybox insmod /modules/$module.ko || busybox poweroff -f
done
busybox mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,\
msize=512000 root /root || busybox poweroff -f
busybox mount -o bind /root{root} /tests
busybox mount -t proc proc /root/proc
busybox mount -t sysfs sysfs /root/sys
busybox mount -t devtmpfs devtmpfs /root/dev
busybox mkdir -p /root/dev/shm
for directory in dev/shm tmp run var; do
    busybox mount -t tmpfs -o mode=1777 tmpfs /root/$directory
done
busybox mount -t cgroup2 cgroup2 /root/sys/fs/cgroup
# Its own /tmp must not hide the tests.
busybox mkdir -p /root{root}
busybox mount -o bind /tests /root{root}
busybox mkdir -p /root/run/systemd/system
busybox cp /walls.service /tests@.service /root/run/systemd/system
busybox cp /bin/busybox /walls /root/run
exec busybox switch_root -c /dev/console /root /lib/systemd/systemd \
--unit=walls.service
"""

_UNIT = """\
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
"""

#: What systemd starts. The last line is for the harness.
_WALLS = f"""\
{_UNIT}
ExecStart=/bin/sh /run/walls
"""
_SCRIPT = """\
PATH=/usr/bin:/usr/sbin:/run
busybox ip link set lo up
status=0
for user in root nobody; do
    echo "== $user, $(busybox uname -r), $(systemctl --version | head -n 1)"
    systemctl start tests@$user || status=1
done
echo "the tests ended with status $status"
busybox poweroff -f
"""

#: As the agent's unit in what concerns cgroups.
_TESTS = f"""\
{_UNIT}
User=%i
Delegate=memory pids cpu
MemoryMax=3G
TasksMax=4096
LimitCORE=0
# A user's processes share keys, as where they log in.
KeyringMode=shared
Environment=PYTHONDONTWRITEBYTECODE=1 HOME=/tmp WALLS_IN_VM=1
WorkingDirectory={{root}}
ExecStart={{root}}/.venv/bin/python -m pytest -p no:cacheprovider \\
    --color=no -n 0 {{arguments}}
"""


def main(arguments: list[str]) -> int:
    """Run the tests in the machine; return pytest's exit status."""
    if not list(_PLACE.glob("boot/vmlinuz-*")):
        subprocess.run([ROOT / "tools/install-vm", _PLACE], check=True)
    (kernel,) = _PLACE.glob("boot/vmlinuz-*")
    initrd = _PLACE / "initrd"
    initrd.write_bytes(initramfs.archive(_files(arguments or ["tests/walls"])))
    command = [
        "qemu-system-x86_64",
        *("-accel", "tcg", "-cpu", "max", "-smp", "2"),
        *("-m", str(_MEMORY_MIB), "-no-reboot", "-nodefaults"),
        *("-display", "none", "-serial", "stdio"),
        *("-kernel", str(kernel), "-initrd", str(initrd)),
        *("-append", "console=ttyS0 quiet panic=-1 rdinit=/init"),
        "-virtfs",
        "local,path=/,mount_tag=root,security_model=none,readonly=on,"
        "multidevs=remap",
    ]
    status = 1
    with subprocess.Popen(
        ["timeout", str(_LIMIT_S), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as machine:
        assert machine.stdout is not None
        for line in machine.stdout:
            text = line.decode(errors="replace").rstrip()
            if ended := _ENDED.match(text):
                status = int(ended[1])
            else:
                sys.stdout.write(f"{text}\n")
                sys.stdout.flush()
    return status


def _files(arguments: list[str]) -> Iterable[tuple[str, int, bytes]]:
    """Yield what the machine starts with: names, modes and contents."""
    root = shlex.quote(str(ROOT))
    init = _INIT.format(modules=" ".join(_MODULES), root=root)
    tests = _TESTS.format(root=root, arguments=shlex.join(arguments))
    for name in ("bin", "dev", "modules", "root", "tests"):
        yield name, 0o040755, b""
    yield "init", 0o100755, init.encode()
    yield "walls", 0o100644, _SCRIPT.encode()
    yield "walls.service", 0o100644, _WALLS.encode()
    yield "tests@.service", 0o100644, tests.encode()
    yield "bin/busybox", 0o100755, (_PLACE / "bin/busybox").read_bytes()
    for name in _MODULES:
        (path,) = _PLACE.glob(f"lib/modules/*/kernel/**/{name}.ko")
        yield f"modules/{name}.ko", 0o100644, path.read_bytes()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
