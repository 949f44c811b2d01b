# SPDX-License-Identifier: Apache-2.0

"""What a machine starts with: a kernel, Python, and this client library."""

from __future__ import annotations

import compileall
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import zlib
from collections.abc import Iterable
from collections.abc import Iterator

from tests.services import openstack
from tests.services.hypervisors import initramfs
from tests.services.hypervisors import network
from tests.services.hypervisors import program

#: What tools/install-vm has unpacked.
_PLACE = openstack.ROOT / "build/vm"

#: In the order of their needs: the network, and the drive with the token.
_MODULES = (
    "virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev"
    " virtio_pci failover net_failover virtio_net"
    " scsi_common scsi_mod libata ata_piix cdrom sr_mod isofs"
).split()

_INIT = """\
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in {modules}; do
    insmod /modules/$module.ko || echo "no module $module"
done
ip link set lo up
IFS=: read -r _ _ _ _ high low </sys/class/net/eth0/address
ip address add 198.18.$((0x$high)).$((0x$low))/{bits} dev eth0
ip link set eth0 up
until mount -t iso9660 -o ro /dev/sr0 /media/configdrive 2>/dev/null; do
    sleep 0.2
done
while true; do
    {python} -m tests.services.hypervisors.program {address} {port}
    sleep 1
done
"""

_DIRECTORIES = "bin dev lib media/configdrive modules proc sys tmp usr"
#: Of Python's library: large, and not for programs of machines.
_UNUSED = (
    *("test", "idlelib", "tkinter", "lib2to3", "ensurepip", "pydoc_data"),
    *("unittest", "distutils", "turtledemo", "venv", "site-packages"),
    *("dist-packages", "sqlite3", "curses", "dbm", "wsgiref", "pdb.py"),
    *("asyncio", "multiprocessing", "xml", "xmlrpc", "html"),
    *("pydoc.py", "doctest.py", "turtle.py"),
)
_PACKAGES = (
    *("__init__.py", "version.py", "vocabulary", "protocol", "client"),
    *("common", "accelerators"),
)
_FAST = 1


def kernel() -> pathlib.Path:
    """Return the kernel's file."""
    (found,) = _PLACE.glob("boot/vmlinuz-*")
    return found


def ramdisk(directory: pathlib.Path, port: int) -> bytes:
    """Return what the kernel unpacks.

    :param directory: an empty one to work in.
    :param port: where the program tells how it fares.
    """
    entries = dict(_files(directory, port))
    parents = {
        str(parent)
        for name in entries
        for parent in pathlib.PurePath(name).parents
    }
    parents.update(
        str(parent)
        for name in _DIRECTORIES.split()
        for parent in (
            pathlib.PurePath(name),
            *pathlib.PurePath(name).parents,
        )
    )
    ordered: Iterable[tuple[str, int, bytes]] = [
        *(
            (name, stat.S_IFDIR | 0o755, b"")
            for name in sorted(parents - {"."})
        ),
        *(
            (name, stat.S_IFREG | 0o755, data)
            for name, data in entries.items()
        ),
    ]
    packed = zlib.compressobj(_FAST, wbits=31)
    return packed.compress(initramfs.archive(ordered)) + packed.flush()


def _files(directory: pathlib.Path, port: int) -> Iterator[tuple[str, bytes]]:
    python = pathlib.Path(sys.executable).resolve()
    init = _INIT.format(
        modules=" ".join(_MODULES),
        bits=network.PREFIX_BITS,
        python=python,
        address=network.ADDRESS,
        port=port,
    )
    yield "init", init.encode()
    yield "bin/busybox", (_PLACE / "bin/busybox").read_bytes()
    for name in _MODULES:
        (path,) = _PLACE.glob(f"lib/modules/*/kernel/**/{name}.ko")
        yield f"modules/{name}.ko", path.read_bytes()
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    extensions = [
        path
        for path in (library / "lib-dynload").glob("*.so")
        if not path.name.startswith(("_codecs_", "_test"))
    ]
    for binary in (python, *extensions):
        yield str(binary).lstrip("/"), binary.read_bytes()
    for needed in _libraries([python, *extensions]):
        yield str(needed).lstrip("/"), needed.read_bytes()
    yield from _compiled(directory / "library", library)
    yield from _own(directory / "own", library)


def _libraries(binaries: list[pathlib.Path]) -> set[pathlib.Path]:
    told = subprocess.run(
        ["ldd", *binaries], capture_output=True, text=True, check=True
    ).stdout
    return {
        pathlib.Path(found)
        for found in re.findall(r"(?:=> |^\s+)(/\S+) \(", told, re.M)
    }


def _compiled(
    place: pathlib.Path, library: pathlib.Path
) -> Iterator[tuple[str, bytes]]:
    """Yield Python's library: only what it makes of its sources."""
    ignore = shutil.ignore_patterns(*_UNUSED, "__pycache__", "config-*")
    shutil.copytree(library, place, ignore=ignore)
    yield from _bytecode(place, str(library))


def _own(
    place: pathlib.Path, library: pathlib.Path
) -> Iterator[tuple[str, bytes]]:
    package = place / "fpgapool"
    package.mkdir(parents=True)
    for name in _PACKAGES:
        source = openstack.ROOT / "fpgapool" / name
        if source.is_dir():
            shutil.copytree(source, package / name)
        else:
            shutil.copy(source, package)
    streamer = place / "tests/services/hypervisors/program.py"
    streamer.parent.mkdir(parents=True)
    shutil.copy(str(program.__file__), streamer)
    yield from _bytecode(place, str(library))


def _bytecode(place: pathlib.Path, path: str) -> Iterator[tuple[str, bytes]]:
    compileall.compile_dir(place, quiet=2, legacy=True, workers=1)
    for found in place.rglob("*.pyc"):
        if found.parent.name != "__pycache__":
            name = found.relative_to(place)
            yield f"{path}/{name}".lstrip("/"), found.read_bytes()
