# SPDX-License-Identifier: Apache-2.0

"""Reads files of the agent, of others and of the host."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import typing

from tests.walls.attacks import calls
from tests.walls.attacks.registry import HIDDEN
from tests.walls.attacks.registry import Scene
from tests.walls.attacks.registry import attack
from tests.walls.attacks.registry import each

_FILES = "Landlock"

#: What is planted; the pattern itself does not match.
SECRET = re.compile(rb"planted-[0-9a-f]{24}")


@attack("finds a password in its own memory", "it was never there")
def own_memory(scene: Scene) -> str:
    # This is the first attack: others read what would be found here.
    with (
        open("/proc/self/maps", encoding="utf-8") as maps,
        open("/proc/self/mem", "rb", buffering=0) as memory,
    ):
        for line in maps:
            span, mode, _, _, _, name = (*line.split(), "")[:6]
            if mode[0] == "r" and not name.startswith(("[v", "/")):
                found = _found(memory, *re.findall("[0-9a-f]+", span))
                if found:
                    return f"a password, at {span}"
    return "refused: there is none"


def _found(memory: typing.BinaryIO, start: str, end: str) -> bool:
    first, size = int(start, 16), int(end, 16) - int(start, 16)
    for at in range(first, first + size, 1 << 24):
        wanted = min(1 << 24, first + size - at)
        try:
            if SECRET.search(os.pread(memory.fileno(), wanted, at)):
                return True
        except OSError:
            # Another thread has freed it, or it may not be read.
            continue
    return False


@attack("finds a password in its own environment", "no such variables")
def own_environment(scene: Scene) -> str:
    with open("/proc/self/environ", "rb") as file:
        found = SECRET.search(file.read())
    if found or SECRET.search(repr(dict(os.environ)).encode()):
        return "a password"
    return "refused: there is none"


def _read(path: str) -> str:
    with open(path, "rb") as file:
        return f"{len(file.read(4096))} bytes of {path}"


@attack("finds a password in a file that is already open", "it is closed")
def inherited_file(scene: Scene) -> str:
    for number in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):
            if SECRET.search(os.pread(number, 4096, 0)):
                return f"a password, from descriptor {number}"
    return "refused: there is none"


@attack("reads the agent's configuration", _FILES, HIDDEN)
def agent_configuration(scene: Scene) -> str:
    return _read(scene["configuration"])


@attack("reads the host's passwords", _FILES, HIDDEN)
def host_passwords(scene: Scene) -> str:
    return _read("/etc/shadow")


@attack("reads a home directory", _FILES, HIDDEN)
def home(scene: Scene) -> str:
    return _read(scene["home_file"])


@attack("reads the directory of another slot's worker", _FILES, HIDDEN)
def other_worker_file(scene: Scene) -> str:
    return _read(scene["other_file"])


@attack("reads another project's bitstream", _FILES, HIDDEN)
def other_bitstream(scene: Scene) -> str:
    return _read(scene["other_bitstream"])


@attack("reads the agent's database", _FILES, HIDDEN)
def agent_database(scene: Scene) -> str:
    return _read(scene["database"])


@attack("reads the logs of others", _FILES, HIDDEN)
def logs(scene: Scene) -> str:
    return _read(scene["log"])


@attack("lists directories of the host and the agent", _FILES, HIDDEN)
def listing(scene: Scene) -> str:
    places = ["/home", scene["state_dir"], scene["other_dir"]]
    tries = {
        place: (lambda place=place: os.listdir(place)) for place in places
    }
    return each(tries)


@attack("opens a file by its handle", "no capabilities, seccomp", HIDDEN)
def handles(scene: Scene) -> str:
    room = bytearray((128).to_bytes(4, "little") + bytes(132))
    handle = (ctypes.c_char * len(room)).from_buffer(room)
    mount = ctypes.c_int()
    calls.call(
        "name_to_handle_at",
        -100,
        os.fsencode(scene["configuration"]),
        handle,
        ctypes.byref(mount),
        0,
    )
    top = os.open("/", os.O_RDONLY)
    try:
        file = calls.call("open_by_handle_at", top, handle, os.O_RDONLY)
    finally:
        os.close(top)
    os.close(file)
    return "the agent's configuration"


@attack("runs a program from memory that reads a file", _FILES, HIDDEN)
def program_in_memory(scene: Scene) -> str:
    def act() -> str:
        memory = os.memfd_create("program", 0)
        with open("/usr/bin/cat", "rb") as program:
            os.write(memory, program.read())
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(writer, 1)
            os.execve(memory, ["cat", scene["configuration"]], {})
        os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            found = SECRET.search(stream.read())
        os.waitpid(child, 0)
        return "a password" if found else "refused: it reads nothing"

    return calls.in_child(act)
