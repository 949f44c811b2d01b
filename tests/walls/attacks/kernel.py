# SPDX-License-Identifier: Apache-2.0

"""Uses parts of the kernel that a driver does not need."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct

from tests.walls.attacks import calls
from tests.walls.attacks.registry import Scene
from tests.walls.attacks.registry import attack

_CALLS = "seccomp"
_RIGHTS = "seccomp, no capabilities"
_MISSING = b"/nonexistent"


@attack("loads a program into the kernel", _CALLS)
def bpf(scene: Scene) -> str:
    array = struct.pack("4I", 2, 4, 4, 1).ljust(72, b"\0")
    os.close(calls.call("bpf", 0, array, len(array)))
    return "a map"


@attack("makes a ring of system calls that no filter sees", _CALLS)
def io_uring(scene: Scene) -> str:
    os.close(calls.call("io_uring_setup", 2, ctypes.create_string_buffer(120)))
    return "a ring"


@attack("measures events of the processor", _CALLS)
def perf(scene: Scene) -> str:
    software, task_clock = 1, 1
    event = struct.pack("IIQ", software, 112, task_clock).ljust(112, b"\0")
    os.close(calls.call("perf_event_open", event, 0, -1, -1, 0))
    return "events"


@attack("handles page faults itself, so that the kernel waits", _CALLS)
def page_faults(scene: Scene) -> str:
    user_mode_only = 1
    os.close(calls.call("userfaultfd", user_mode_only))
    return "a descriptor"


@attack("loads a module", _RIGHTS)
def load_module(scene: Scene) -> str:
    calls.call("init_module", b"none", 4, b"")
    return "a module"


@attack("loads a module from a file", _RIGHTS)
def load_module_file(scene: Scene) -> str:
    calls.call("finit_module", -1, b"", 0)
    return "a module"


@attack("removes a module", _RIGHTS)
def remove_module(scene: Scene) -> str:
    calls.call("delete_module", b"walls_no_such_module", os.O_NONBLOCK)
    return "a module less"


@attack("starts another kernel", _RIGHTS)
def other_kernel(scene: Scene) -> str:
    calls.call("kexec_load", 0, 1 << 20, None, 0)
    return "another kernel"


@attack("restarts the machine", _RIGHTS)
def restart(scene: Scene) -> str:
    # These are not the numbers that it wants to see.
    calls.call("reboot", 1, 1, 1, None)
    return "a restart"


@attack("sets the clock", _RIGHTS)
def clock(scene: Scene) -> str:
    # To no time, and no time zone.
    calls.call("settimeofday", None, None)
    return "another time"


@attack("adjusts the clock", _RIGHTS)
def adjust_clock(scene: Scene) -> str:
    state = ctypes.create_string_buffer(208)
    calls.call("adjtimex", state)
    set_tick = 0x4000
    # To the tick that it has.
    struct.pack_into("I", state, 0, set_tick)
    calls.call("adjtimex", state)
    return "another speed"


@attack("names the host", _RIGHTS)
def host_name(scene: Scene) -> str:
    name = os.uname().nodename.encode()
    calls.call("sethostname", name, len(name))
    return "another name"


@attack("swaps to a file", _RIGHTS)
def swap(scene: Scene) -> str:
    calls.call("swapon", _MISSING, 0)
    return "a swap file"


@attack("has the kernel account processes to a file", _RIGHTS)
def accounting(scene: Scene) -> str:
    calls.call("acct", _MISSING)
    return "an account"


@attack("changes quotas of disks", _RIGHTS)
def disk_quota(scene: Scene) -> str:
    # To nothing, which is noticed after the permission is checked.
    set_quota = 0x800008 << 8
    root = os.open("/", os.O_RDONLY)
    try:
        calls.call("quotactl_fd", root, set_quota, 0, None)
    finally:
        os.close(root)
    return "another quota"


@attack("reads the kernel's log", _RIGHTS)
def kernel_log(scene: Scene) -> str:
    read_all = 3
    room = ctypes.create_string_buffer(4096)
    return f"{calls.call('syslog', read_all, room, len(room))} bytes"


@attack("does input and output by ports", _RIGHTS)
def port_level(scene: Scene) -> str:
    return calls.in_child(lambda: calls.call("iopl", 3))


@attack("uses a port of the machine", _RIGHTS)
def port(scene: Scene) -> str:
    return calls.in_child(lambda: calls.call("ioperm", 0x80, 1, 1))


@attack("uses the system calls of 32-bit programs", _CALLS)
def calls_of_32_bits(scene: Scene) -> str:
    if calls.MACHINE != calls.X86_64:
        return "refused: there are none"
    getpid = 20
    return calls.in_child(lambda: _by_interrupt(getpid))


def _by_interrupt(number: int) -> str:
    # push rbx; mov eax, number; int 0x80; pop rbx; ret
    code = b"\x53\xb8" + struct.pack("I", number) + b"\xcd\x80\x5b\xc3"
    rights = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    page = mmap.mmap(-1, mmap.PAGESIZE, flags, rights)
    page.write(code)
    held = ctypes.c_char.from_buffer(page)
    result = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(held))()
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return f"a call passes the filter: {result}"


@attack("uses the system calls of x32 programs", _CALLS)
def calls_of_x32(scene: Scene) -> str:
    if calls.MACHINE != calls.X86_64:
        return "refused: there are none"
    getpid = 0x40000000 | 39
    return calls.in_child(lambda: calls.call(getpid))
