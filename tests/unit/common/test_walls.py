# SPDX-License-Identifier: Apache-2.0

"""What a process can no longer do once it has given up its rights."""

from __future__ import annotations

import json
import os
import pathlib
import pwd
import socket
import subprocess
import sys
import textwrap

import pytest

import fpgapool
from fpgapool.common.walls import calls
from fpgapool.common.walls import landlock
from fpgapool.common.walls import places

_PROBE = """
import ctypes, errno, fcntl, json, mmap, os, resource, signal, socket, sys
import threading
from fpgapool.common.walls import calls, landlock, places, rights

own, other, parent = sys.argv[1], sys.argv[2], int(sys.argv[3])
kept = open(other + "/kept")
libc = ctypes.CDLL(None, use_errno=True)

def syscall(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "")

def tried(function, *arguments, **more):
    try:
        function(*arguments, **more)
    except OSError as exc:
        return errno.errorcode[exc.errno]
    return "done"

before = tried(open, other + "/kept")
BEFORE
rights.hide_memory()
rights.limit({resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 1 << 20})
rights.drop_capabilities()
assert landlock.restrict(readable=places.libraries([own]), writable=ALLOWED)
assert calls.refuse(CALLS)
"""


def _probe(
    tmp_path: pathlib.Path,
    body: str,
    *,
    writable: bool = False,
    allowed: tuple[str, ...] = (),
    before: str = "",
) -> dict[str, object]:
    """Run the last lines of a program that has given up its rights.

    :param before: a line that it runs before that.
    """
    own, other = tmp_path / "own", tmp_path / "other"
    for place in (own, other):
        place.mkdir()
    (other / "kept").write_text("secret")
    (own / "mine").write_text("mine")
    program = (
        _PROBE.replace("ALLOWED", "[own]" if writable else "[]")
        .replace("CALLS", repr(allowed))
        .replace("BEFORE", before)
    )
    done = subprocess.run(
        [
            *(sys.executable, "-c", program + textwrap.dedent(body)),
            *(str(own), str(other), str(os.getpid())),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.security
def test_files_stay_closed_but_its_own_and_open_ones(
    tmp_path: pathlib.Path,
) -> None:
    found = _probe(
        tmp_path,
        """
        print(json.dumps({
            "before": before,
            "kept": kept.read(),
            "own": open(own + "/mine").read(),
            "denied": {
                name: tried(*attempt) for name, attempt in {
                    "other": (open, other + "/kept"),
                    "passwd": (open, "/etc/passwd"),
                    "others' processes": (open, f"/proc/{parent}/environ"),
                    "names": (os.listdir, "/proc"),
                    "write": (open, own + "/mine", "w"),
                    "new": (open, own + "/new", "w"),
                    "unlink": (os.unlink, own + "/mine"),
                    "link": (os.link, own + "/mine", own + "/more"),
                    "rename": (os.rename, own + "/mine", own + "/more"),
                    "chmod": (os.chmod, other + "/kept", 0o777),
                    "fchmod": (os.fchmod, kept.fileno(), 0o777),
                    "chown": (os.chown, other + "/kept", -1, -1),
                    "truncate": (os.truncate, other + "/kept", 0),
                    "utime": (os.utime, other + "/kept"),
                    "xattr": (os.setxattr, other + "/kept", "user.a", b""),
                    "memory": (open, "/dev/shm/x", "w"),
                    "fifo": (os.mkfifo, own + "/fifo"),
                }.items()
            },
        }))
        """,
    )
    assert (found["before"], found["kept"]) == ("done", "secret")
    assert found["own"] == "mine"
    denied = found["denied"]
    assert isinstance(denied, dict)
    assert set(denied.values()) <= {"EACCES", "EPERM", "EXDEV"}, denied


@pytest.mark.security
def test_processes_networks_and_the_kernel_are_out_of_reach(
    tmp_path: pathlib.Path,
) -> None:
    found = _probe(
        tmp_path,
        """
        pair = socket.socketpair()
        print(json.dumps({
            "allowed": {
                "itself": tried(os.kill, os.getpid(), 0),
                "pair": tried(socket.socketpair),
                "thread": tried(threading.Thread(target=int).start),
                "memory": tried(os.memfd_create, "x"),
                "limit": tried(resource.getrlimit, resource.RLIMIT_CORE),
            },
            "denied": {
                name: tried(*attempt) for name, attempt in {
                    "kill": (os.kill, parent, 0),
                    "all": (os.kill, -1, 0),
                    "thread of others": (syscall, 234, parent, parent, 0),
                    "pidfd": (os.pidfd_open, parent),
                    "ptrace": (syscall, 101, 16, parent, 0, 0),
                    "priority": (os.setpriority, 0, parent, 19),
                    "affinity": (os.sched_setaffinity, parent, {0}),
                    "limits": (resource.prlimit, parent, 7),
                    "owner": (fcntl.fcntl, pair[0], fcntl.F_SETOWN, parent),
                    "group": (os.setpgid, 0, 0),
                    "session": (os.setsid,),
                    "fork": (os.fork,),
                    "exec": (os.execv, "/bin/true", ["true"]),
                    "socket": (socket.socket,),
                    "local": (socket.socket, socket.AF_UNIX),
                    "datagrams": (
                        socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM
                    ),
                    "raw": (
                        socket.socketpair, socket.AF_UNIX, socket.SOCK_RAW
                    ),
                    "namespace": (syscall, 272, 0x10000000),
                    "keys": (syscall, 250, 0, -3, 0),
                    "bpf": (syscall, 321, 0, 0, 0),
                    "ring": (syscall, 425, 1, bytes(120)),
                    "user": (os.setuid, os.getuid()),
                    "names": (syscall, 253),
                }.items()
            },
            "reserved": [
                tried(mmap.mmap, -1, 1 << 21, flags=mmap.MAP_PRIVATE
                      | mmap.MAP_ANONYMOUS | 0x40000),
                tried(os.memfd_create, "x", os.MFD_HUGETLB),
            ],
            "new": [tried(syscall, 435, 0, 0), tried(syscall, 452)],
            "limits": resource.getrlimit(resource.RLIMIT_FSIZE),
            "capabilities": [
                line.split()[1] for line in open("/proc/self/status")
                if line.startswith(("CapPrm", "NoNewPrivs"))
            ],
        }))
        """,
    )
    allowed, denied = found["allowed"], found["denied"]
    assert isinstance(allowed, dict)
    assert isinstance(denied, dict)
    assert set(allowed.values()) == {"done"}, allowed
    assert set(denied.values()) == {"EPERM"}, denied
    assert found["reserved"] == ["ENOMEM", "ENOMEM"]
    assert found["new"] == ["ENOSYS", "ENOSYS"]
    assert found["limits"] == [1 << 20, 1 << 20]
    assert found["capabilities"] == ["0" * 16, "1"]


@pytest.mark.security
def test_a_listening_socket_cannot_become_a_connection(
    tmp_path: pathlib.Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as service:
        found = _probe(
            tmp_path,
            f"""
            port = socket.socket(fileno=fd)
            port.shutdown(socket.SHUT_RDWR)
            address = "127.0.0.1", {service.getsockname()[1]}
            print(json.dumps([
                tried(port.sendto, b"x", socket.MSG_FASTOPEN, address),
                tried(port.sendmsg, [b"x"], (), socket.MSG_FASTOPEN, address),
            ]))
            """,
            before="fd = socket.create_server(('127.0.0.1', 0)).detach()",
        )
    assert found == ["EPERM", "EPERM"]


@pytest.mark.security
def test_what_is_needed_stays(tmp_path: pathlib.Path) -> None:
    found = _probe(
        tmp_path,
        """
        if not (child := os.fork()):
            os.execv("/bin/sh", ["sh", "-c", f"echo more >{own}/more"])
        print(json.dumps([
            os.waitpid(child, 0)[1],
            open(own + "/more").read(),
            tried(os.chmod, own + "/more", 0o700),
            tried(os.kill, parent, 0),
        ]))
        """,
        writable=True,
        allowed=("execve", "fork"),
    )
    assert found == [0, "more\n", "EPERM", "EPERM"]


def test_all_refused_calls_are_known() -> None:
    import pyseccomp

    names = [name for group in calls.REFUSED.values() for name in group]
    assert len(names) == len(set(names))
    unknown = [
        name
        for name in names
        if pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) == -1
    ]
    assert unknown == []


def test_the_version_of_landlock_is_that_of_the_kernel() -> None:
    assert landlock.version() >= 1


def test_libraries_are_found_wherever_they_are(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "3.11.7"
    for part in ("bin", "lib", "etc"):
        (there / part).mkdir(parents=True)
    link = tmp_path / "3.11"
    link.symlink_to(there)
    monkeypatch.setattr(sys, "base_prefix", str(link))
    (tmp_path / "lib").mkdir()
    found = places.libraries([f"{tmp_path}/lib", f"{tmp_path}/none"])
    # The process finds files by either name.
    both = {
        f"{form}/{part}" for form in (there, link) for part in ("bin", "lib")
    }
    assert {*both, f"{tmp_path}/lib"} <= set(found)
    # An environment may have the services' configuration.
    assert {str(there), f"{there}/etc"}.isdisjoint(found)
    assert f"{tmp_path}/none" not in found
    assert str(pathlib.Path(fpgapool.__file__).parent) in found
    libraries = {f"{sys.prefix}/lib", str(pathlib.Path(os.__file__).parent)}
    assert libraries <= set(found)


@pytest.mark.security
def test_directories_with_other_files_are_not_libraries(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "user"
    home.mkdir()
    entry = pwd.struct_passwd(("user", "x", 1, 1, "", str(home), "sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: entry)
    wide = {"/", "/etc", "/home", "/var", str(tmp_path), str(home)}
    monkeypatch.setattr(sys, "path", [*wide, "", f"{home}/lib"])
    monkeypatch.setattr(sys, "prefix", "/")
    for name in ("lib", "state"):
        (home / name / "workers").mkdir(parents=True)
    found = places.libraries(
        ["", "/", "/etc", "", f"{home}/state"],
        private=[f"{home}/state/workers"],
    )
    assert f"{home}/lib" in found
    assert {*wide, f"{home}/state"}.isdisjoint(found)
    assert os.getcwd() not in found
