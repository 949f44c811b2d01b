# SPDX-License-Identifier: Apache-2.0

"""Compiles OpenCL C in a separate process.

The source is a tenant's, and a large compiler may have exploitable bugs, so
the process has few privileges
(:mod:`fpgapool.drivers.opencl.compiling.confinement`), resource limits, only
the environment variables that OpenCL runtimes need, and a temporary directory.
"""

from __future__ import annotations

import collections.abc
import contextlib
import json
import logging
import math
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing

from fpgapool.common.walls import places
from fpgapool.drivers import base
from fpgapool.drivers.opencl import compiling
from fpgapool.drivers.opencl.compiling import confinement
from fpgapool.vocabulary import codes

LOG = logging.getLogger(__name__)

DEFAULT_TIMEOUT_S = 60.0
DEFAULT_MEMORY_BYTES = 4 << 30
#: Maximum size of a binary.
MAX_FILE_BYTES = 64 << 20
#: What it may write in its directory, looked at every now and then.
MAX_DIRECTORY_BYTES = 256 << 20
_LOOK_S = 0.1
_BLOCK_BYTES = 512

_PREFIX = "fpgapool-compiler-"
_MAX_FILES = 256
_MAX_TASKS = 128
_MAX_TEXT_CHARS = 2000
_MAX_HEADER_BYTES = 4096
_MAX_LOG = 1000

#: Variables that OpenCL runtimes read.
_KEPT = re.compile(
    r"(POCL|OCL|OPENCL|CUDA|ROCR|HIP)_\w+|LD_LIBRARY_PATH|XILINX_XRT"
)
#: Variables that name directories with libraries to read.
NAMING = ("LD_LIBRARY_PATH", "OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH")
#: Variables that name directories for writing; set to the process's own.
_DIRECTORIES = ("HOME", "POCL_CACHE_DIR", "TMPDIR", "XDG_CACHE_HOME")
#: The process's own directory. Its real path may have parent directories that
#: the ``nobody`` user cannot enter.
_HERE = "/proc/self/cwd"
_FIXED = {
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYOPENCL_NO_CACHE": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "POCL_MAX_PTHREAD_COUNT": "1",
}

#: Match the build log in PyOpenCL's message, and PoCL's name for the source.
_LOG = re.compile(r"\n\nBuild on [^\n]*:\n(.*?)\(options: ", re.DOTALL)
_SOURCE = re.compile(r"/\w+\.cl\b")

_REFUSED = 3
#: Matches a file name and line, after which a compiler may quote the file.
_QUOTED = re.compile(r"(/[^\s:<>]+):\d+")
#: Directories that all users may read, with the compilers' headers.
_HEADERS = ("/usr/", "/opt/", f"{sys.prefix}/", f"{sys.base_prefix}/")


def compile_source(
    source: bytes,
    options: collections.abc.Sequence[str],
    platform_pattern: str,
    device_pattern: str,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    manifest: bytes | None = None,
    versions: collections.abc.Sequence[str] | None = None,
) -> bytes:
    """Compile a program; block until the compiler has ended.

    :param options: compiler options in addition to those for all kernels.
    :param platform_pattern: pattern for the platform's name, as in a boards
        file.
    :param device_pattern: pattern for the device's name. The first matching
        device is the target.
    :param manifest: if given, the program must contain the kernels that it
        names.
    :param versions: if given, the versions that the platform and the driver
        of the device must have.
    :raises DriverError: ``KERNEL_BUILD_FAILED`` with the end of the
        compiler's log, or the limit that it exceeded; ``INVALID_MANIFEST`` if
        the program lacks a kernel; ``DEVICE_FAILED`` if no device matches;
        ``PROCESS_SPENT`` if it has other versions.
    """
    request = {
        "source": source.decode("utf-8", "replace"),
        "options": [*options],
        "platform": platform_pattern,
        "device": device_pattern,
        "manifest": None if manifest is None else manifest.decode("utf-8"),
        "versions": None if versions is None else [*versions],
        "cpu_s": math.ceil(timeout_s),
        "memory_bytes": memory_bytes,
        "worker_pid": os.getpid(),
    }
    _sweep()
    directory = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")
    try:
        if os.geteuid() == 0:
            os.chown(directory, confinement.NOBODY, confinement.NOBODY)
        status, answer = _run(json.dumps(request), directory, timeout_s)
    finally:
        _remove(directory)
    if status is None:
        raise _failed(
            f"the compiler took more than {timeout_s:g} s, or"
            f" {MAX_DIRECTORY_BYTES} bytes of files"
        )
    header, _, body = answer.partition(b"\n")
    if status == 0 and body:
        _warn_if_unconfined(header)
        return body
    if status == _REFUSED:
        code, text = json.loads(body)
        raise base.DriverError(code, _bounded(text, directory))
    raise _failed(_ending(status, timeout_s, memory_bytes))


def _failed(message: str) -> base.DriverError:
    return base.DriverError(codes.KERNEL_BUILD_FAILED, message)


def _run(
    request: str, directory: str, timeout_s: float
) -> tuple[int | None, bytes]:
    """Run the compiler's process.

    :returns: its exit status (None if it took too long) and its answer.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if _KEPT.fullmatch(name)
    }
    environment |= dict.fromkeys(_DIRECTORIES, _HERE) | _FIXED
    # The process must find the same modules as this one.
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    # Files instead of pipes: their size is limited, and neither process can
    # block on them.
    with (
        tempfile.TemporaryFile() as question,
        tempfile.TemporaryFile() as answer,
        tempfile.TemporaryFile() as said,
    ):
        question.write(request.encode())
        question.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=question,
            stdout=answer,
            stderr=said,
            cwd=directory,
            env=environment,
            start_new_session=True,
        )
        try:
            is_over = _wait(process.pid, timeout_s, directory)
        finally:
            # Kill its children, too. Its ID cannot be reused before wait().
            os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
        if status > 128:
            # A signal ended the inner process; see confinement.leave_others().
            status = 128 - status
        if status not in (0, _REFUSED):
            said.seek(0)
            LOG.info("OpenCL compiler output: %r", said.read()[-_MAX_LOG:])
        answer.seek(0)
        return (status if is_over else None), answer.read()


def _wait(pid: int, timeout_s: float, directory: str) -> bool:
    """Return whether a process ends in time, and fills no directory."""
    end_s = time.monotonic() + timeout_s
    fd = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        while (left_s := end_s - time.monotonic()) > 0:
            if poll.poll(min(left_s, _LOOK_S) * 1000):
                return True
            try:
                if _used_bytes(directory) > MAX_DIRECTORY_BYTES:
                    return False
            except RecursionError:
                # No compiler nests directories like this.
                return False
        return False
    finally:
        os.close(fd)


def _used_bytes(directory: str) -> int:
    used_bytes = 0
    for _, _, names, fd in os.fwalk(directory):
        for name in names:
            # It may remove files at any time.
            with contextlib.suppress(OSError):
                found = os.lstat(name, dir_fd=fd)
                used_bytes += found.st_blocks * _BLOCK_BYTES
    return used_bytes


def _remove(directory: str) -> None:
    def open_up(_function: typing.Any, path: str, _error: typing.Any) -> None:
        # The compiler may have created directories that their owner cannot
        # change.
        for place in (os.path.dirname(path), path):
            if not os.path.islink(place):
                os.chmod(place, 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)

    shutil.rmtree(directory, onerror=open_up)


def _sweep() -> None:
    """Remove the directories of processes that were killed."""
    for path in pathlib.Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        pid = path.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            shutil.rmtree(path, ignore_errors=True)


def _warn_if_unconfined(header: bytes) -> None:
    missing = json.loads(header[:_MAX_HEADER_BYTES])
    if missing:
        LOG.warning(
            "The OpenCL compiler is not fully confined on this host: %s",
            "; ".join(str(each) for each in missing),
        )


def _bounded(text: str, directory: str) -> str:
    """Return the end of a compiler's log, if it quotes only its source."""
    # Omit the names of temporary files and of this host's devices.
    text = text.replace(directory, "").replace(_HERE, "")
    if log := _LOG.search(text):
        text = _SOURCE.sub("source", log[1].strip())
    for path in _QUOTED.findall(text):
        if not os.path.normpath(path).startswith(_HEADERS):
            return f"the source includes another file: {path:.200}"
    lines = (
        "".join(sign if sign.isprintable() else " " for sign in line)
        for line in text.splitlines()
    )
    return "\n".join(lines)[-_MAX_TEXT_CHARS:]


def _ending(status: int, timeout_s: float, memory_bytes: int) -> str:
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return (
            f"the compiler took more than {math.ceil(timeout_s)} s of "
            "processor time"
        )
    if status == -signal.SIGXFSZ:
        return f"the compiler wrote more than {MAX_FILE_BYTES} bytes"
    how = f"status {status}"
    if status < 0:
        how = signal.Signals(-status).name
    return (
        f"the compiler ended with {how}; it may have reached its memory limit"
        f" of {memory_bytes} bytes"
    )


def main() -> int:
    """Run the compiler's process: read a request and write an answer.

    The exit status is 0, or 3 if the answer is the code and text of an error.
    """
    # Redirect the output of libraries to standard error: it is not part of the
    # answer.
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    request = json.load(sys.stdin)
    missing, closed = _confine(request)
    try:
        body = _compiled(request)
    except (ImportError, OSError) as error:
        message = f"OpenCL cannot be used: {_last_line(error)}"
        if closed:
            message += f"; the compiler may not read {', '.join(closed)}"
        body = json.dumps([codes.DEVICE_FAILED, message]).encode()
        status = _REFUSED
    except base.DriverError as error:
        body = json.dumps([error.code, error.message]).encode()
        status = _REFUSED
    except ValueError as error:
        # Errors of the manifest.
        code = getattr(error, "code", codes.KERNEL_BUILD_FAILED)
        body = json.dumps([code, str(error)]).encode()
        status = _REFUSED
    else:
        status = 0
    answer.write(json.dumps(missing).encode() + b"\n" + body)
    answer.close()
    # Skip the runtime's exit handlers, which may wait for its threads.
    os._exit(status)


def _last_line(error: Exception) -> str:
    # NumPy puts many lines of advice before the actual message.
    return str(error).strip().rpartition("\n")[2]


def _confine(
    request: collections.abc.Mapping[str, typing.Any],
) -> tuple[list[str], list[str]]:
    """Give up all privileges that a compiler does not need.

    :returns: what the kernel could not restrict, and the paths that this
        process needs to read but cannot.
    """
    confinement.die_with_parent()
    if os.getppid() != request["worker_pid"]:
        sys.exit("the worker has ended")
    missing = []
    is_root = os.geteuid() == 0
    has_left = confinement.leave_others()
    if not has_left:
        missing.append("its child processes may outlive it (no namespaces)")
    libraries = places.libraries(
        place
        for name in NAMING
        for place in os.environ.get(name, "").split(os.pathsep)
    )
    confinement.reveal(libraries)
    if not confinement.keep_files(libraries, _HERE):
        missing.append("it can read all that its user can (no Landlock)")
    confinement.limit(
        cpu_s=request["cpu_s"],
        memory_bytes=request["memory_bytes"],
        file_bytes=MAX_FILE_BYTES,
        files=_MAX_FILES,
        # Otherwise the limit would include the worker's other processes.
        tasks=_MAX_TASKS if is_root or has_left else 0,
    )
    confinement.drop_rights()
    confinement.die_with_parent()
    if not confinement.refuse_calls() and not has_left:
        missing.append(
            "it can access networks (neither namespaces nor seccomp)"
        )
    closed = [each for each in libraries if not os.access(each, os.R_OK)]
    return missing, closed


def _compiled(request: collections.abc.Mapping[str, typing.Any]) -> bytes:
    """Compile in the confined process; see :func:`compile_source`.

    :raises ImportError, OSError: if OpenCL cannot be used.
    :raises InvalidManifest: if the program lacks a kernel.
    """
    # Imported here so that only this process loads the runtime.
    import pyopencl as cl

    from fpgapool.drivers.opencl import devices
    from fpgapool.drivers.opencl import platforms
    from fpgapool.drivers.opencl import programs
    from fpgapool.drivers.opencl.contents import manifest as manifests

    wanted = devices.Board(
        platform=request["platform"], device=request["device"]
    )
    fitting = [
        each for found, each in platforms.listed() if wanted.fits(found)
    ]
    if not fitting:
        raise base.DriverError(
            codes.DEVICE_FAILED,
            f"no OpenCL device matches platform {wanted.platform!r:.200} and "
            f"device {wanted.device!r:.200}",
        )
    device = fitting[0]
    versions = [device.platform.version, device.driver_version]
    if request["versions"] not in (None, versions):
        raise base.DriverError(
            codes.PROCESS_SPENT,
            "the OpenCL runtime was replaced after this process had loaded it:"
            f" its versions are now {versions}",
        )
    options = [*compiling.BUILD_OPTIONS, *request["options"]]
    try:
        program = cl.Program(cl.Context([device]), request["source"])
        binary = bytes(program.build(options, [device]).binaries[0])
    except cl.Error as error:
        raise _failed(str(error)) from None
    if request["manifest"] is not None:
        manifest = manifests.parse(request["manifest"].encode())
        programs.Program(device, manifest, binary)
    return binary


if __name__ == "__main__":
    sys.exit(main())
