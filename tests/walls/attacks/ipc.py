# SPDX-License-Identifier: Apache-2.0

"""Reaches what processes of a user share in the kernel."""

from __future__ import annotations

import ctypes
import os

from tests.walls.attacks import calls
from tests.walls.attacks.files import SECRET
from tests.walls.attacks.registry import HIDDEN
from tests.walls.attacks.registry import Scene
from tests.walls.attacks.registry import attack

_CALLS = "seccomp"

_OF_PROCESS, _OF_USER = -2, -4


@attack("keeps a key in the kernel", _CALLS)
def new_key(scene: Scene) -> str:
    data = b"x"
    calls.call("add_key", b"user", b"walls", data, len(data), _OF_PROCESS)
    return "a key"


@attack("reads a key of its user", _CALLS, {*HIDDEN, 126})
def read_key(scene: Scene) -> str:
    search, read = 10, 11
    name = scene["key"].encode()
    key = calls.call("keyctl", search, _OF_USER, b"user", name, 0)
    room = ctypes.create_string_buffer(64)
    calls.call("keyctl", read, key, room, len(room))
    return repr(SECRET.search(bytes(room)))


@attack("has the kernel look for a key", _CALLS, {*HIDDEN, 126})
def request_key(scene: Scene) -> str:
    name = scene["key"].encode()
    calls.call("request_key", b"user", name, None, 0)
    return "a key"


@attack("maps SysV memory of another process", _CALLS, HIDDEN)
def shared_memory(scene: Scene) -> str:
    memory = calls.call("shmget", scene["sysv"], 0, 0)
    read_only = 0o10000
    place = calls.call("shmat", memory, None, read_only)
    found = SECRET.search(ctypes.string_at(place, 64))
    calls.call("shmdt", place)
    return repr(found)


@attack("opens a SysV queue of another process", _CALLS, HIDDEN)
def message_queue(scene: Scene) -> str:
    return f"queue {calls.call('msgget', scene['sysv'], 0)}"


@attack("opens SysV semaphores of another process", _CALLS, HIDDEN)
def semaphores(scene: Scene) -> str:
    return f"semaphore {calls.call('semget', scene['sysv'], 0, 0)}"


@attack("makes SysV memory that outlives it", _CALLS)
def lasting_memory(scene: Scene) -> str:
    private = 0
    memory = calls.call("shmget", private, 4096, 0o600)
    remove = 0
    calls.call("shmctl", memory, remove, None)
    return "memory that nobody frees"


@attack("opens a POSIX queue of another process", _CALLS, HIDDEN)
def posix_queue(scene: Scene) -> str:
    name = scene["queue"].encode()
    os.close(calls.call("mq_open", name, os.O_RDWR, 0, None))
    return "a queue"
