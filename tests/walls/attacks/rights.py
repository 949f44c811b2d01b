# SPDX-License-Identifier: Apache-2.0

"""Gets more rights than the process has."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import subprocess

from tests.walls.attacks import calls
from tests.walls.attacks.registry import HIDDEN
from tests.walls.attacks.registry import Scene
from tests.walls.attacks.registry import attack

_RIGHTS = "no capabilities"
_OTHER = 65533
#: In a namespace of users nobody else exists.
_ALONE = {errno.EINVAL}


@attack("becomes another user", _RIGHTS, _ALONE)
def other_user(scene: Scene) -> str:
    return calls.in_child(lambda: os.setresuid(_OTHER, _OTHER, _OTHER))


@attack("becomes another group", _RIGHTS, _ALONE)
def other_group(scene: Scene) -> str:
    return calls.in_child(lambda: os.setresgid(_OTHER, _OTHER, _OTHER))


@attack("joins groups", _RIGHTS, _ALONE)
def more_groups(scene: Scene) -> str:
    return calls.in_child(lambda: os.setgroups([_OTHER]))


@attack("takes all capabilities", _RIGHTS)
def capabilities(scene: Scene) -> str:
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    admin = 1 << 21
    sets = (ctypes.c_uint32 * 6)(admin, admin, 0, 0, 0, 0)
    return calls.in_child(lambda: calls.call("capset", header, sets))


@attack("gets rights from a set-user-ID program", "no_new_privs", HIDDEN)
def set_user_id(scene: Scene) -> str:
    if not scene.get("set_user_id"):
        no_new_rights = calls.prctl(39)
        return "refused: none" if no_new_rights else "a program would run"
    # None of these starts a thread, or needs a shell.
    done = subprocess.run(
        [scene["set_user_id"]], capture_output=True, env={}, check=False
    )
    text = done.stdout.decode()
    return text if "euid=0" in text else "refused: no other user"


@attack("leaves its memory open to processes of its user", "PR_SET_DUMPABLE")
def dumpable(scene: Scene) -> str:
    get_dumpable = 3
    if calls.prctl(get_dumpable):
        return "others can trace it"
    return "refused: it is not dumpable"


@attack("writes its memory to a core file", "a limit")
def core_file(scene: Scene) -> str:
    def act() -> str:
        _, most = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (most, most))
        return "a core file" if most else "refused: the limit is 0"

    return calls.in_child(act)


@attack("raises its limits", _RIGHTS)
def higher_limits(scene: Scene) -> str:
    def act() -> str:
        most = resource.RLIM_INFINITY
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))
            resource.setrlimit(resource.RLIMIT_CORE, (most, most))
        except ValueError as error:
            return f"refused: {error}"
        return "higher limits"

    return calls.in_child(act)


@attack("changes how it is executed", "seccomp")
def personality(scene: Scene) -> str:
    no_randomization = 0x0040000
    return calls.in_child(lambda: calls.call("personality", no_randomization))


@attack("leaves its session, so that it outlives the agent", "seccomp")
def other_session(scene: Scene) -> str:
    return calls.in_child(os.setsid)
