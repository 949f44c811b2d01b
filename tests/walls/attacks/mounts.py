# SPDX-License-Identifier: Apache-2.0

"""Changes what is mounted, and makes namespaces."""

from __future__ import annotations

import os
import struct

from tests.walls.attacks import calls
from tests.walls.attacks.registry import HIDDEN
from tests.walls.attacks.registry import Scene
from tests.walls.attacks.registry import attack

_MOUNTS = "seccomp, Landlock, no capabilities"
_SPACES = "seccomp"

_NEW_USER = 0x10000000
_CHILD_ENDS = 17


@attack("mounts a file system", _MOUNTS, HIDDEN)
def mounting(scene: Scene) -> str:
    place = os.fsencode(scene["other_dir"])
    calls.call("mount", b"tmpfs", place, b"tmpfs", 0, None)
    calls.call("umount2", place, 0)
    return "another directory"


@attack("unmounts a file system", _MOUNTS, HIDDEN)
def unmounting(scene: Scene) -> str:
    # It is no mount point, which is noticed after the permission is checked.
    calls.call("umount2", os.fsencode(scene["other_dir"]), 0)
    return "what was below"


@attack("copies a tree of mounts", _MOUNTS, HIDDEN)
def mount_tree(scene: Scene) -> str:
    clone = 1
    os.close(calls.call("open_tree", -100, b"/", clone))
    return "a tree"


@attack("moves a mount", _MOUNTS, HIDDEN)
def mount_move(scene: Scene) -> str:
    place = os.fsencode(scene["other_dir"])
    calls.call("move_mount", -100, place, -100, place, 0)
    return "another directory"


@attack("changes the flags of a mount", _MOUNTS, HIDDEN)
def mount_flags(scene: Scene) -> str:
    nothing = bytes(32)
    calls.call("mount_setattr", -100, b"/", 0, nothing, len(nothing))
    return "other flags"


@attack("prepares a file system to be mounted", _MOUNTS)
def mount_context(scene: Scene) -> str:
    os.close(calls.call("fsopen", b"tmpfs", 0))
    return "a file system"


@attack("changes the root of all", _MOUNTS, HIDDEN)
def root_of_all(scene: Scene) -> str:
    # It is busy, which is noticed after the permission is checked.
    calls.call("pivot_root", b"/", b"/")
    return "another root"


@attack("changes its root", "seccomp, no capabilities", HIDDEN)
def own_root(scene: Scene) -> str:
    place = os.fsencode(scene["other_dir"])
    return calls.in_child(lambda: calls.call("chroot", place))


def _space(flag: int) -> str:
    return calls.in_child(lambda: calls.call("unshare", flag))


@attack("becomes root of a namespace of users", _SPACES)
def user_namespace(scene: Scene) -> str:
    return _space(_NEW_USER)


@attack("makes a namespace of mounts", _SPACES)
def mount_namespace(scene: Scene) -> str:
    return _space(0x00020000)


@attack("makes a namespace of networks", _SPACES)
def network_namespace(scene: Scene) -> str:
    return _space(0x40000000)


@attack("makes a namespace of processes", _SPACES)
def process_namespace(scene: Scene) -> str:
    return _space(0x20000000)


@attack("makes a namespace of SysV objects", _SPACES)
def ipc_namespace(scene: Scene) -> str:
    return _space(0x08000000)


@attack("makes a namespace of host names", _SPACES)
def name_namespace(scene: Scene) -> str:
    return _space(0x04000000)


@attack("makes a namespace of control groups", _SPACES)
def cgroup_namespace(scene: Scene) -> str:
    return _space(0x02000000)


@attack("makes a namespace of clocks", _SPACES)
def time_namespace(scene: Scene) -> str:
    return _space(0x00000080)


@attack("makes a process in a new namespace", _SPACES)
def clone(scene: Scene) -> str:
    child = calls.call("clone", _NEW_USER | _CHILD_ENDS, 0, 0, 0, 0)
    if child == 0:
        calls.end_child()
    return calls.reap(child, "a process")


@attack("makes a process in a new namespace by clone3", _SPACES)
def clone3(scene: Scene) -> str:
    arguments = struct.pack("8Q", _NEW_USER, 0, 0, 0, _CHILD_ENDS, 0, 0, 0)
    child = calls.call("clone3", arguments, len(arguments))
    if child == 0:
        calls.end_child()
    return calls.reap(child, "a process")


@attack("enters the namespaces of another process", _SPACES, HIDDEN)
def enter_namespace(scene: Scene) -> str:
    space = os.open("/proc/self/ns/uts", os.O_RDONLY)
    try:
        return calls.in_child(lambda: calls.call("setns", space, 0))
    finally:
        os.close(space)
