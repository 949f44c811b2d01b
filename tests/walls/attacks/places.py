# SPDX-License-Identifier: Apache-2.0

"""Changes files, in directories of others and in those that all share."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
from collections.abc import Iterator

from tests.walls.attacks import calls
from tests.walls.attacks.registry import HIDDEN
from tests.walls.attacks.registry import Scene
from tests.walls.attacks.registry import attack
from tests.walls.attacks.registry import each

_FILES = "Landlock"
_CALLS = "seccomp"
_NAME = "walls-attack"


@contextlib.contextmanager
def _removed(path: str) -> Iterator[str]:
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _spoil(directory: str) -> None:
    path = os.path.join(directory, f"{_NAME}-{os.getpid()}")
    with _removed(path), open(path, "xb"):
        pass


@attack("makes files where others find them", _FILES, HIDDEN)
def new_files(scene: Scene) -> str:
    places = scene["shared_dirs"]
    return each({one: (lambda one=one: _spoil(one)) for one in places})


@attack("makes a link to a file of the agent", _FILES, HIDDEN)
def hard_link(scene: Scene) -> str:
    path = os.path.join(scene["state_dir"], _NAME)
    with _removed(path):
        os.link(scene["configuration"], path)
    return "another name of the agent's configuration"


@attack("puts a symbolic link into the agent's directory", _FILES, HIDDEN)
def symbolic_link(scene: Scene) -> str:
    path = os.path.join(scene["state_dir"], _NAME)
    with _removed(path):
        os.symlink("/etc/passwd", path)
    return "a link"


@attack("renames a file of another worker", _FILES, HIDDEN)
def renaming(scene: Scene) -> str:
    other = scene["other_file"] + "-moved"
    os.rename(scene["other_file"], other)
    os.rename(other, scene["other_file"])
    return "another name"


@attack("removes a file of another worker", _FILES, HIDDEN)
def removing(scene: Scene) -> str:
    path = scene["other_file"]
    spare = scene["other_file"] + "-kept"
    os.link(path, spare)
    os.unlink(path)
    os.rename(spare, path)
    return "it is gone"


@attack("writes to the agent's database", _FILES, HIDDEN)
def writing(scene: Scene) -> str:
    os.close(os.open(scene["database"], os.O_WRONLY))
    return "an open file"


@attack("cuts a file of the agent", "Landlock 3", HIDDEN, landlock=3)
def truncating(scene: Scene) -> str:
    path = scene["database"]
    os.truncate(path, os.stat(path).st_size)
    return "its length is the attacker's"


@attack("changes the mode of the agent's configuration", _CALLS, HIDDEN)
def mode(scene: Scene) -> str:
    os.chmod(scene["configuration"], 0o600)
    return "everybody could read it"


@attack(
    "changes the owner of a file of the agent",
    _CALLS,
    # In a namespace of users nobody else exists.
    {*HIDDEN, errno.EINVAL},
)
def owner(scene: Scene) -> str:
    os.chown(scene["configuration"], os.getuid(), os.getgid())
    return "another owner"


@attack("changes the times of a file of the agent", _CALLS, HIDDEN)
def times(scene: Scene) -> str:
    was = os.stat(scene["database"])
    os.utime(scene["database"], ns=(was.st_atime_ns, was.st_mtime_ns))
    return "other times"


@attack("sets an attribute of a file of the agent", _CALLS, HIDDEN)
def attributes(scene: Scene) -> str:
    os.setxattr(scene["database"], "user.walls", b"1")
    os.removexattr(scene["database"], "user.walls")
    return "an attribute"


#: Gives a call what it needs without a path: a file that is not read.
_ITSELF = 0x1000
_HERE = -100


@contextlib.contextmanager
def _found(path: str) -> Iterator[int]:
    """Give a descriptor that only names a file, as anybody may have it."""
    file = os.open(path, os.O_PATH)
    try:
        yield file
    finally:
        os.close(file)


@attack("changes the mode of a file that it only names", _CALLS, HIDDEN)
def mode_of_named(scene: Scene) -> str:
    with _found(scene["configuration"]) as file:
        calls.call("fchmodat2", file, b"", 0o600, _ITSELF)
    return "everybody could read it"


@attack(
    "changes the owner of a file that it only names",
    _CALLS,
    {*HIDDEN, errno.EINVAL},
)
def owner_of_named(scene: Scene) -> str:
    with _found(scene["configuration"]) as file:
        ids = os.getuid(), os.getgid()
        calls.call("fchownat", file, b"", *ids, _ITSELF)
    return "another owner"


@attack("changes the times of a file that it only names", _CALLS, HIDDEN)
def times_of_named(scene: Scene) -> str:
    with _found(scene["database"]) as file:
        calls.call("utimensat", file, b"", None, _ITSELF)
    return "other times"


#: Newer than the names that older filters know.
_NEWER = "seccomp, by numbers"


@attack("sets an attribute by a newer call", _NEWER, HIDDEN)
def attributes_by_newer_call(scene: Scene) -> str:
    value = ctypes.create_string_buffer(b"1")
    arguments = struct.pack("QII", ctypes.addressof(value), 1, 0)
    path = os.fsencode(scene["database"])
    rest = b"user.walls", arguments, len(arguments)
    calls.call("setxattrat", _HERE, path, 0, *rest)
    os.removexattr(path, "user.walls")
    return "an attribute"


@attack("sets flags by a newer call", _NEWER, HIDDEN)
def flags_by_newer_call(scene: Scene) -> str:
    path = os.fsencode(scene["database"])
    none = bytes(24)
    calls.call("file_setattr", _HERE, path, none, len(none), 0)
    return "other flags"


@attack("watches directories of others", _CALLS, HIDDEN)
def watching(scene: Scene) -> str:
    watcher = calls.call("inotify_init1", os.O_CLOEXEC)
    try:
        place = os.fsencode(scene["other_dir"])
        calls.call("inotify_add_watch", watcher, place, 0xFFF)
    finally:
        os.close(watcher)
    return "all that another worker does there"


@attack("watches file systems", _CALLS, HIDDEN)
def watching_all(scene: Scene) -> str:
    by_name = 0x200
    watcher = calls.call("fanotify_init", by_name, 0)
    try:
        place = os.fsencode(scene["other_dir"])
        calls.call("fanotify_mark", watcher, 1, 2, -100, place)
    finally:
        os.close(watcher)
    return "all that another worker does there"


@attack("changes settings of the kernel", _FILES, HIDDEN)
def kernel_settings(scene: Scene) -> str:
    paths = (
        "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    )
    return each(
        {
            path: (lambda path=path: os.close(os.open(path, os.O_WRONLY)))
            for path in paths
        }
    )


@attack("makes the kernel kill others before itself", _FILES, HIDDEN)
def killed_last(scene: Scene) -> str:
    def act() -> str:
        with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
            file.write(b"-1000")
        return "others are killed first"

    return calls.in_child(act)


@attack("leaves its control group, or changes its limits", _FILES, HIDDEN)
def control_group(scene: Scene) -> str:
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        own = file.read().splitlines()[-1].rpartition(":")[2].lstrip("/")
    files = "cgroup.procs", "memory.max", "pids.max"
    places = "/sys/fs/cgroup", "/sys/fs/cgroup/unified"
    paths = [
        os.path.join(place, below, name)
        for place in places
        for below in ("", own, os.path.dirname(own))
        for name in files
    ]
    return each(
        {
            path: (lambda path=path: os.close(os.open(path, os.O_WRONLY)))
            for path in paths
        }
    )


@attack("types into a terminal", _FILES, HIDDEN)
def terminal(scene: Scene) -> str:
    file = os.open(scene["terminal"], os.O_RDWR | os.O_NOCTTY)
    os.close(file)
    return "what is typed there"


@attack("reads disks", f"{_FILES}, permissions of files", HIDDEN)
def disks(scene: Scene) -> str:
    with open("/proc/partitions", encoding="utf-8") as file:
        names = [line.split()[3] for line in file.read().splitlines()[2:]]
    return each(
        {
            name: (lambda name=name: _read_device(f"/dev/{name}"))
            for name in names
        }
    )


def _read_device(path: str) -> None:
    os.close(os.open(path, os.O_RDONLY))


@attack("reads the kernel's memory", _FILES, HIDDEN)
def kernel_memory(scene: Scene) -> str:
    paths = "/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore", "/dev/kmsg"
    return each(
        {path: (lambda path=path: _read_device(path)) for path in paths}
    )


@attack("opens devices that no slot has", _FILES, HIDDEN)
def devices(scene: Scene) -> str:
    names = (
        *("fuse", "kvm", "net/tun", "ptmx", "loop-control", "vhost-net"),
        *("vsock", "uinput", "mapper/control", "vhost-vsock"),
    )
    return each(
        {
            name: (
                lambda name=name: os.close(
                    os.open(f"/dev/{name}", os.O_RDWR | os.O_NOCTTY)
                )
            )
            for name in names
        }
    )


@attack("makes a device file", "no capabilities, Landlock", HIDDEN)
def device_file(scene: Scene) -> str:
    character = 0o020000 | 0o600

    def make(directory: str) -> None:
        path = os.path.join(directory, f"{_NAME}-null-{os.getpid()}")
        with _removed(path):
            os.mknod(path, character, os.makedev(1, 3))

    places = scene["shared_dirs"]
    return each({one: (lambda one=one: make(one)) for one in places})
