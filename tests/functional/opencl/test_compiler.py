# SPDX-License-Identifier: Apache-2.0

"""A compiler in a process of its own, and sources that mean harm."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest

import fpgapool
from fpgapool.drivers import base
from fpgapool.drivers.opencl.compiling import compiler
from fpgapool.drivers.opencl.contents import manifest
from tests.harness import pocl
from tests.harness import waiting
from tests.unit.drivers.opencl import packages

ROOT = pathlib.Path(fpgapool.__file__).parents[1]
PLATFORM = pocl.PLATFORM
KERNEL = "kernel void add(global int *a) { a[0] = 1; }\n"
TENFOLD = "\n".join(
    [
        "#define A(x) x x x x x x x x x x",
        "#define B(x) A(A(x))",
        "#define C(x) B(B(B(x)))",
        "kernel void add(global int *a) { C(C(a[0]++;)) }",
    ]
)


@pytest.fixture(autouse=True)
def temporary(
    directory: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[pathlib.Path]:
    """Give the directory of temporary files; nothing stays in it."""
    path = directory / "temporary"
    # Also if the compiler is another user, who may not enter it. Pytest's own
    # directory does not move here because it is made before.
    path.mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    yield path
    assert list(path.iterdir()) == []


def compiled(source: str | bytes, *options: str, **limits) -> bytes:
    data = source if isinstance(source, bytes) else source.encode()
    return compiler.compile_source(data, options, PLATFORM, "*", **limits)


def refusal(source: str, *options: str, **limits) -> tuple[str, str]:
    with pytest.raises(base.DriverError) as caught:
        compiled(source, *options, **limits)
    return caught.value.code, caught.value.message


def test_the_binary_runs_here(tmp_path: pathlib.Path) -> None:
    """In this process, whose runtime has not seen the source."""
    binary = compiled(packages.SOURCE, manifest=packages.manifest())
    with pytest.MonkeyPatch.context() as patch:
        for name, value in pocl.environment(tmp_path).items():
            patch.setenv(name, value)
        device = pocl.device()
        from fpgapool.drivers.opencl import runner

        parsed = manifest.parse(packages.manifest())
        program = runner.programs.Program(device, parsed, binary)
        made = runner.Runner(program, {"amount": 3}, 1000)
        output = bytearray(1000)
        data = bytes(range(250)) * 4
        made.process(memoryview(data), memoryview(output), 0)
        made.clear()
    assert output == bytes((byte + 3) % 256 for byte in data)


def test_what_is_wrong_is_said() -> None:
    code, message = refusal(KERNEL.replace("1;", "x;"))
    assert code == "KERNEL_BUILD_FAILED"
    assert "source:1:41: use of undeclared identifier 'x'" in message
    # Of the host there is nothing in it.
    assert sys.prefix not in message
    assert compiled(KERNEL.replace("1;", "LATER;"), "-D", "LATER=2")
    code, message = refusal(
        KERNEL.replace("add", "other"), manifest=packages.manifest()
    )
    assert (code, "no kernel 'add'" in message) == ("INVALID_MANIFEST", True)
    with pytest.raises(
        base.DriverError, match="no OpenCL device matches"
    ) as caught:
        compiler.compile_source(b"", (), "No such*", "*")
    assert caught.value.code == "DEVICE_FAILED"


def test_an_interpreter_that_only_its_user_can_reach(
    directory: pathlib.Path,
) -> None:
    """In a home directory, as those of uv, pyenv and conda are."""
    prefix = directory / "home" / "python"
    library = pathlib.Path(os.__file__).parent
    shutil.copytree(
        library,
        prefix / "lib" / library.name,
        ignore=shutil.ignore_patterns(
            *("__pycache__", "*-packages", "config-*"),
            *("ensurepip", "idlelib", "lib2to3", "test"),
        ),
    )
    (prefix / "bin").mkdir()
    python = prefix / "bin" / library.name
    shutil.copy(os.path.realpath(sys.executable), python)
    prefix.parent.chmod(0o700)
    directory.chmod(0o711)
    script = (
        "import sys; from fpgapool.drivers.opencl.compiling import compiler;"
        "print(sys.base_prefix);"
        f"compiler.compile_source({KERNEL!r}.encode(), (), {PLATFORM!r}, '*')"
    )
    places = [str(ROOT), *(each for each in sys.path if "-packages" in each)]
    done = subprocess.run(
        [python, "-P", "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{prefix}\n"


@pytest.mark.security
@pytest.mark.parametrize(
    ("source", "limits", "said"),
    [
        pytest.param("#include __FILE__", {}, "nested too deeply", id="self"),
        pytest.param(
            TENFOLD, {"timeout_s": 2.0}, "more than 2 s", id="without end"
        ),
        pytest.param(
            TENFOLD, {"memory_bytes": 1 << 29}, "SIGABRT", id="macros"
        ),
        pytest.param(
            "constant int big[1 << 29] = {1, 2};" + KERNEL,
            {"memory_bytes": 1 << 29, "timeout_s": 5.0},
            # LLVM 15 may hang where it tells that there is no more of it.
            "memory|more than 5 s",
            id="array",
        ),
    ],
)
def test_a_source_that_means_harm(source, limits, said) -> None:
    code, message = refusal(source, **limits)
    assert code == "KERNEL_BUILD_FAILED"
    assert re.search(said, message)
    assert len(message) <= 2000


@pytest.mark.security
def test_no_file_of_the_host_is_in_errors(directory: pathlib.Path) -> None:
    secret = directory / "secret"
    secret.write_text("root_of_all_evil nologin;\n")
    for path in ("/etc/passwd", secret):
        code, message = refusal(f'#include "{path}"\n{KERNEL}')
        assert code == "KERNEL_BUILD_FAILED"
        for word in ("root", "evil", "nologin"):
            assert word not in message


@pytest.mark.security
def test_no_file_is_quoted_where_the_compiler_could_read_it() -> None:
    """As on kernels without Landlock, and as other compilers quote."""
    lines = [
        "In file included from source:1:",
        "/etc/passwd:1:1: error: unknown type name 'root'",
        "root:x:0:0:root:/root:/bin/bash",
        "^",
    ]
    text = compiler._bounded("\n".join(lines), "/nowhere")
    assert text == "the source includes another file: /etc/passwd"


def test_errors_in_headers_are_shown() -> None:
    text = f"{sys.prefix}/opencl-c.h:7:1: note: candidate\nsource:1: error"
    assert compiler._bounded(text, "/nowhere") == text
    outside = f"{sys.prefix}/../../etc/passwd:7:1: note: root"
    assert "note" not in compiler._bounded(outside, "/nowhere")


#: Shows the rights that are left, as JSON.
PROBE = """
import json, os, resource, socket, sys
from fpgapool.drivers.opencl.compiling import confinement

parent, port, own, other = sys.argv[1:]
confinement.die_with_parent()
found = {"networks left": confinement.leave_others()}
found["files kept"] = confinement.keep_files([sys.prefix, *sys.path[1:]], own)
confinement.limit(
    cpu_s=5, memory_bytes=1 << 30, file_bytes=1 << 16, files=20, tasks=50
)
confinement.drop_rights()

def outcome(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "done"

def connect():
    socket.create_connection(("127.0.0.1", int(port)), 5).close()

found["connect"] = outcome(connect)
for path in ("/etc/passwd", f"/proc/{parent}/environ", other):
    found[path] = outcome(lambda: open(path))
found["write"] = outcome(lambda: open(other + ".new", "w"))
found["own"] = outcome(lambda: open(os.path.join(own, "file"), "w"))
found["signal"] = outcome(lambda: os.kill(int(parent), 0))
found["root"] = os.geteuid() == 0
with open("/proc/self/status") as status:
    (found["rights"],) = (
        line.split()[1] for line in status if line.startswith("CapEff")
    )
found["cores"] = resource.getrlimit(resource.RLIMIT_CORE)[1]
found["memory"] = resource.getrlimit(resource.RLIMIT_AS)[1]
print(json.dumps(found))
"""


@pytest.mark.security
def test_the_rights_that_are_left(
    directory: pathlib.Path,
) -> None:
    # For another user than this one.
    directory.chmod(0o711)
    own, other = directory / "own", directory / "other"
    own.mkdir(mode=0o777)
    own.chmod(0o777)
    other.write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        arguments = (os.getpid(), server.getsockname()[1], own, other)
        done = subprocess.run(
            [sys.executable, "-c", PROBE, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            timeout=60,
            check=True,
        )
    found = json.loads(done.stdout)
    assert found["rights"] == "0000000000000000"
    assert (found["own"], found["root"]) == ("done", False)
    assert (found["cores"], found["memory"]) == (0, 1 << 30)
    if found["networks left"]:
        assert found["connect"] != "done"
    if found["files kept"]:
        denied = [
            *("/etc/passwd", f"/proc/{os.getpid()}/environ", str(other)),
            "write",
        ]
        assert {found[name] for name in denied} == {"PermissionError"}


#: Says what a process can still do without a namespace.
CALLS = """
import ctypes, os, socket
from fpgapool.drivers.opencl.compiling import confinement

print(confinement.refuse_calls())
libc = ctypes.CDLL(None, use_errno=True)
for family in ("UNIX", "INET", "INET6", "NETLINK", "PACKET", "VSOCK"):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_RAW):
        number = getattr(socket, f"AF_{family}")
        print(family, libc.socket(number, kind, 0) >= 0 or ctypes.get_errno())
pair = (ctypes.c_int * 2)()
for number in (socket.AF_UNIX, socket.AF_TIPC):
    print("pair", libc.socketpair(number, socket.SOCK_STREAM, 0, pair))
print("io_uring", libc.syscall(425, 1, ctypes.create_string_buffer(120)))
if not os.fork():
    for leave in (os.setsid, os.setpgrp, lambda: os.setpgid(0, 0)):
        try:
            leave()
        except PermissionError:
            print("stays", flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.security
def test_networks_are_closed_without_namespaces() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CALLS],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    first, *lines = done.stdout.splitlines()
    assert first == "True"
    families = ("UNIX", "INET", "INET6", "NETLINK", "PACKET", "VSOCK")
    others = [f"{name} 1" for name in families]
    assert lines == [
        *(each for each in others for _ in range(3)),
        *("pair 0", "pair -1", "io_uring -1", *["stays"] * 3),
    ]


#: A library whose process starts another one, which flees, and then ends or
#: not.
FLEEING = """
import contextlib, os, time

if not os.fork():
    for leave in (os.setsid, os.setpgrp):
        with contextlib.suppress(OSError):
            leave()
    if os.fork():
        os._exit(0)
    time.sleep(1000)
time.sleep({sleep_s})
raise ImportError("there is no library")
"""


@pytest.mark.security
@pytest.mark.parametrize(("sleep_s", "timeout_s"), [(0.2, 60), (1000, 1)])
@pytest.mark.parametrize("has_namespaces", [True, False])
def test_what_it_starts_ends_with_it(
    directory: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    has_namespaces: bool,
    sleep_s: float,
    timeout_s: float,
) -> None:
    directory.chmod(0o711)
    library = directory / "library"
    library.mkdir()
    (library / "pyopencl.py").write_text(FLEEING.format(sleep_s=sleep_s))
    if not has_namespaces:
        (library / "sitecustomize.py").write_text(
            "from fpgapool.drivers.opencl.compiling import confinement\n"
            "confinement._libc.unshare = lambda flags: -1\n"
        )
    # Their command lines have this name.
    python = library / "python"
    python.symlink_to(os.path.realpath(sys.executable))
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.syspath_prepend(library)
    message = refusal(KERNEL, timeout_s=timeout_s)[1]
    assert ("no library" in message) == (sleep_s < timeout_s)
    waiting.wait_until(lambda: not _running(python), "the end of all")


def _running(python: pathlib.Path) -> list[str]:
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().startswith(os.fsencode(python)):
                found.append(path.parent.name)
    return found


@pytest.mark.security
def test_it_ends_with_its_worker(temporary: pathlib.Path) -> None:
    """Whoever kills the worker; the next one removes what is left."""
    script = (
        "import sys; from fpgapool.drivers.opencl.compiling import compiler;"
        "print(flush=True);"
        f"compiler.compile_source({TENFOLD!r}.encode(), (), {PLATFORM!r}, '*')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TMPDIR": str(temporary),
        },
        stdout=subprocess.PIPE,
    ) as worker:
        children = pathlib.Path(
            f"/proc/{worker.pid}/task/{worker.pid}/children"
        )
        waiting.wait_until(children.read_text, "the compiler")
        (pid,) = map(int, children.read_text().split())
        below = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
        waiting.wait_until(below.read_text, "its own process")
        fds = [os.pidfd_open(int(each)) for each in (pid, below.read_text())]
        worker.send_signal(signal.SIGKILL)
    try:
        for fd in fds:
            waiting.wait_until(lambda fd=fd: _has_ended(fd), "the end of all")
    finally:
        for fd in fds:
            os.close(fd)
    assert list(temporary.iterdir()) != []
    assert refusal("kernel")[0] == "KERNEL_BUILD_FAILED"


def _has_ended(fd: int) -> bool:
    try:
        signal.pidfd_send_signal(fd, 0)
    except ProcessLookupError:
        return True
    return False
