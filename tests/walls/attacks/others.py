# SPDX-License-Identifier: Apache-2.0

"""Looks into other processes, and acts on them."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import socket
import struct

from tests.walls.attacks import calls
from tests.walls.attacks.files import SECRET
from tests.walls.attacks.registry import HIDDEN
from tests.walls.attacks.registry import Scene
from tests.walls.attacks.registry import attack

_PROC = "Landlock"
_TRACING = "seccomp, Landlock"
_SIGNALS = "seccomp, Landlock 6"
_CALLS = "seccomp"


@attack("lists processes and their command lines", _PROC, HIDDEN)
def command_lines(scene: Scene) -> str:
    with open(f"/proc/{scene['pid']}/cmdline", "rb") as file:
        return f"{len(file.read())} bytes"


@attack("reads the environment of another process", _PROC, HIDDEN)
def environment(scene: Scene) -> str:
    with open(f"/proc/{scene['pid']}/environ", "rb") as file:
        found = SECRET.search(file.read())
    return "a password" if found else "another environment"


@attack("reads the memory of another process", _PROC, HIDDEN)
def memory(scene: Scene) -> str:
    with open(f"/proc/{scene['pid']}/mem", "rb", buffering=0) as file:
        file.seek(scene["address"])
        return repr(SECRET.search(file.read(scene["length"])))


@attack("reads the memory map of another process", _PROC, HIDDEN)
def memory_map(scene: Scene) -> str:
    with open(f"/proc/{scene['pid']}/maps", "rb") as file:
        return f"{len(file.read())} bytes"


@attack("opens the files of another process", _PROC, HIDDEN)
def open_files(scene: Scene) -> str:
    path = f"/proc/{scene['pid']}/fd/{scene['file']}"
    with open(path, "rb") as file:
        return repr(SECRET.search(file.read()))


@attack("goes through the root of another process", _PROC, HIDDEN)
def other_root(scene: Scene) -> str:
    path = f"/proc/{scene['pid']}/root{scene['configuration']}"
    with open(path, "rb") as file:
        return repr(SECRET.search(file.read()))


@attack("becomes the tracer of a process", _TRACING, HIDDEN)
def trace_attach(scene: Scene) -> str:
    attach, detach = 16, 17
    calls.call("ptrace", attach, scene["pid"], 0, 0)
    os.waitpid(scene["pid"], 0x40000000)
    calls.call("ptrace", detach, scene["pid"], 0, 0)
    return "a traced process"


@attack("becomes the tracer of a process without a stop", _TRACING, HIDDEN)
def trace_seize(scene: Scene) -> str:
    seize = 0x4206
    # Whom a child traces is let go when the child ends.
    return calls.in_child(
        lambda: calls.call("ptrace", seize, scene["pid"], 0, 0)
    )


def _other_memory(scene: Scene, name: str) -> ctypes.Array[ctypes.c_char]:
    room = ctypes.create_string_buffer(scene["length"])
    own = struct.pack("PN", ctypes.addressof(room), scene["length"])
    other = struct.pack("PN", scene["address"], scene["length"])
    if name == "process_vm_writev":
        # Nothing is written to one byte of nothing.
        other = struct.pack("PN", scene["spare_address"], 1)
        own = struct.pack("PN", ctypes.addressof(room), 1)
    calls.call(name, scene["pid"], own, 1, other, 1, 0)
    return room


@attack("copies the memory of another process", _TRACING, HIDDEN)
def copy_memory(scene: Scene) -> str:
    room = _other_memory(scene, "process_vm_readv")
    return repr(SECRET.search(bytes(room)))


@attack("writes to the memory of another process", _TRACING, HIDDEN)
def write_memory(scene: Scene) -> str:
    _other_memory(scene, "process_vm_writev")
    return "a changed byte"


@attack("holds another process by a descriptor", _CALLS, HIDDEN)
def process_descriptor(scene: Scene) -> str:
    os.close(calls.call("pidfd_open", scene["pid"], 0))
    return "a descriptor"


def _pidfd(scene: Scene) -> int:
    try:
        return calls.call("pidfd_open", scene["pid"], 0)
    except PermissionError:
        # A directory of /proc is one, too, for some calls.
        return os.open(f"/proc/{scene['pid']}", os.O_RDONLY)


@attack("takes an open file from another process", _TRACING, HIDDEN)
def take_file(scene: Scene) -> str:
    pidfd = _pidfd(scene)
    try:
        file = calls.call("pidfd_getfd", pidfd, scene["file"], 0)
    finally:
        os.close(pidfd)
    with os.fdopen(file, "rb") as stream:
        stream.seek(0)
        return repr(SECRET.search(stream.read()))


@attack("compares what it and another process have", _TRACING, HIDDEN)
def compare(scene: Scene) -> str:
    return f"{calls.call('kcmp', os.getpid(), scene['pid'], 1, 0, 0)}"


@attack("moves the pages of another process", _TRACING, HIDDEN)
def move_pages(scene: Scene) -> str:
    page = struct.pack("P", scene["address"] & ~4095)
    status = ctypes.create_string_buffer(4)
    calls.call("move_pages", scene["pid"], 1, page, None, status, 0)
    return "where they are"


@attack("throws the pages of another process out", _TRACING, HIDDEN)
def advise_pages(scene: Scene) -> str:
    pidfd = _pidfd(scene)
    page_out = 21
    place = struct.pack("PN", scene["address"] & ~4095, 4096)
    try:
        calls.call("process_madvise", pidfd, place, 1, page_out, 0)
    finally:
        os.close(pidfd)
    return "a slower process"


@attack("reads the list of locks of another process", _TRACING, HIDDEN)
def locks(scene: Scene) -> str:
    head = ctypes.create_string_buffer(8)
    size = ctypes.create_string_buffer(8)
    calls.call("get_robust_list", scene["pid"], head, size)
    return "an address"


@attack("signals another process", _SIGNALS, HIDDEN)
def kill(scene: Scene) -> str:
    os.kill(scene["pid"], 0)
    return "a signal"


@attack("signals a process group", _SIGNALS, HIDDEN)
def kill_group(scene: Scene) -> str:
    os.killpg(scene["group"], 0)
    return "a signal"


@attack("signals all processes", _SIGNALS, HIDDEN)
def kill_all(scene: Scene) -> str:
    os.kill(-1, 0)
    return "a signal"


@attack("signals a thread of another process", _SIGNALS, HIDDEN)
def kill_thread(scene: Scene) -> str:
    calls.call("tgkill", scene["pid"], scene["pid"], 0)
    return "a signal"


@attack("signals any thread", _SIGNALS, HIDDEN)
def kill_any_thread(scene: Scene) -> str:
    calls.call("tkill", scene["pid"], 0)
    return "a signal"


@attack("signals a process by a descriptor", _SIGNALS, HIDDEN)
def kill_by_descriptor(scene: Scene) -> str:
    pidfd = _pidfd(scene)
    try:
        calls.call("pidfd_send_signal", pidfd, 0, None, 0)
    finally:
        os.close(pidfd)
    return "a signal"


@attack("queues a signal with data", _SIGNALS, HIDDEN)
def queue_signal(scene: Scene) -> str:
    queued = -1
    data = struct.pack("iii", 0, 0, queued).ljust(128, b"\0")
    calls.call("rt_sigqueueinfo", scene["pid"], 0, data)
    return "a signal"


@attack("queues a signal with data to a thread", _SIGNALS, HIDDEN)
def queue_thread_signal(scene: Scene) -> str:
    queued = -1
    data = struct.pack("iii", 0, 0, queued).ljust(128, b"\0")
    calls.call("rt_tgsigqueueinfo", scene["pid"], scene["pid"], 0, data)
    return "a signal"


@attack(
    "makes the kernel signal another process when a socket is ready",
    "Landlock 6",
    HIDDEN,
    landlock=6,
)
def signal_by_socket(scene: Scene) -> str:
    ours, its = socket.socketpair()
    with ours, its:
        fcntl.fcntl(ours, fcntl.F_SETOWN, scene["counter"])
        fcntl.fcntl(ours, fcntl.F_SETSIG, signal.SIGUSR1)
        flags = fcntl.fcntl(ours, fcntl.F_GETFL)
        fcntl.fcntl(ours, fcntl.F_SETFL, flags | os.O_ASYNC)
        its.send(b"now")
    # Only the other process knows.
    return f"{AWAITED} if the signal has come"


#: How an outcome begins that the victim has to confirm.
AWAITED = "a signal,"


@attack("limits another process", _CALLS, HIDDEN)
def limit_other(scene: Scene) -> str:
    limits = resource.prlimit(scene["pid"], resource.RLIMIT_NOFILE)
    resource.prlimit(scene["pid"], resource.RLIMIT_NOFILE, limits)
    return "its limits are the attacker's"


@attack("moves another process to other processors", _CALLS, HIDDEN)
def processors(scene: Scene) -> str:
    os.sched_setaffinity(scene["pid"], os.sched_getaffinity(scene["pid"]))
    return "a slower process"


@attack("makes another process wait for processors", _CALLS, HIDDEN)
def priority(scene: Scene) -> str:
    was = os.getpriority(os.PRIO_PROCESS, scene["pid"])
    os.setpriority(os.PRIO_PROCESS, scene["pid"], was)
    return "a slower process"


@attack("changes how another process is scheduled", _CALLS, HIDDEN)
def scheduling(scene: Scene) -> str:
    pid = scene["pid"]
    was = os.sched_getscheduler(pid), os.sched_getparam(pid)
    os.sched_setscheduler(pid, *was)
    return "a slower process"


@attack("makes another process wait for disks", _CALLS, HIDDEN)
def disk_priority(scene: Scene) -> str:
    process, best_effort = 1, 2 << 13 | 4
    calls.call("ioprio_set", process, scene["pid"], best_effort)
    return "a slower process"
