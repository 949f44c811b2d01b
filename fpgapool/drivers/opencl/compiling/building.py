# SPDX-License-Identifier: Apache-2.0

"""Makes programs for a device: compiles their source, or loads their binary.

Compiled binaries are cached, so other workers need not compile them again.
"""

from __future__ import annotations

import collections.abc
import contextlib
import fcntl
import glob
import hashlib
import os
import pathlib
import shutil
import struct
import typing

from fpgapool.drivers import common
from fpgapool.drivers import helper
from fpgapool.drivers.opencl import compiling
from fpgapool.drivers.opencl import devices
from fpgapool.drivers.opencl.compiling import compiler
from fpgapool.drivers.opencl.contents import bitstreams
from fpgapool.drivers.opencl.contents import package
from fpgapool.vocabulary import formats
from fpgapool.vocabulary import shapes

if typing.TYPE_CHECKING:
    import pyopencl as cl

    from fpgapool.drivers.opencl import runner as runners
    from fpgapool.drivers.opencl import wiping

MAX_KEPT = 256
_LOCK = "compiling.lock"
#: As many as an offset in a file can have.
_LOCK_DIGITS = 15

#: Names the directory where PoCL caches compiled programs.
POCL_VARIABLE = "POCL_CACHE_DIR"
#: Keeps PyOpenCL from sharing pickled code with other processes of the user.
_NO_CACHE_VARIABLE = "PYOPENCL_NO_CACHE"


def scratch(directory: pathlib.Path, name: str) -> str:
    """Return where this process's PoCL caches what it compiles."""
    return os.environ.get(POCL_VARIABLE) or str(directory / f"{name}.pocl")


def prepare(directory: pathlib.Path, name: str) -> None:
    """Prepare this process for OpenCL runtimes before one is loaded.

    PoCL caches what it compiles. Workers of different projects must not share
    a cache, so each process gets its own directory.
    """
    os.environ.setdefault(_NO_CACHE_VARIABLE, "1")
    if POCL_VARIABLE not in os.environ:
        path = scratch(directory, name)
        shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.mkdir(path, 0o700)
        os.environ[POCL_VARIABLE] = path


_TEXT = shapes.text(1000)


def _lock_byte(fd: int, offset: int) -> None:
    # struct flock on Linux, whose offsets have 64 bits.
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0)
    fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, lock)


class Binaries:
    """The binaries that all workers of this host share.

    Only helpers, or processes that may run any code anyway, use this class: a
    worker that runs a tenant's code may name any source and device. It can
    then store binaries, but no wrong one: a binary's name covers all facts
    that determine the binary. These are the source, the options, and the
    names and versions of platform and device. The confined compiler returns
    the binary of exactly this source, and compares the other facts with those
    of the runtime that it has loaded. The environment is the operator's, and
    the same for all workers. A source that takes over its compiler can return
    anything, but only for itself; whoever uses that source runs its author's
    code in any case.

    A worker can read binaries, whose sources it must know. It can displace
    others, which are then compiled again.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory

    def duty(self) -> helper.Duty:
        """Return :meth:`get` as a helper's duty."""
        names = ("platform", "device", "platform_version", "driver_version")
        return helper.Duty(
            self.get,
            shapes.Members(dict.fromkeys(names, _TEXT)),
            package.MAX_KIND_BYTES[formats.OPENCL_SOURCE],
        )

    def get(
        self,
        source: bytes,
        *,
        platform: str,
        device: str,
        platform_version: str,
        driver_version: str,
    ) -> bytes:
        """Return the binary of a source; compile it if there is none.

        :param platform: name of the platform, as of the device.
        :raises base.DriverError: see :func:`compiler.compile_source`.
        """
        facts = (platform, device, platform_version, driver_version)
        texts = (*facts, *compiling.BUILD_OPTIONS)
        digest = hashlib.sha256("\0".join(texts).encode())
        digest.update(b"\0" + source)
        path = self._directory / digest.hexdigest()
        # What is kept does not wait for another source that is compiled.
        with contextlib.suppress(OSError):
            return path.read_bytes()
        with self._alone(path.name):
            with contextlib.suppress(OSError):
                return path.read_bytes()
            # Compile in a separate process, because the source is a tenant's.
            binary = compiler.compile_source(
                source,
                (),
                glob.escape(platform),
                glob.escape(device),
                versions=facts[2:],
            )
            with contextlib.suppress(OSError):
                self._keep(path, binary)
        return binary

    @contextlib.contextmanager
    def _alone(self, name: str) -> collections.abc.Iterator[None]:
        """Make other workers wait while this one compiles the same source."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(
            self._directory / _LOCK,
            os.O_CREAT | os.O_RDWR | os.O_CLOEXEC,
            0o600,
        )
        try:
            # One byte for each name, so that nobody can hold up the source of
            # another project; a file for each would stay. The byte need not
            # exist, and the lock is that of this open file, not the process.
            _lock_byte(lock, int(name[:_LOCK_DIGITS], 16))
            yield
        finally:
            os.close(lock)

    def _keep(self, path: pathlib.Path, binary: bytes) -> None:
        common.replace_file(path, binary)
        kept = sorted(
            self._directory.glob("?" * len(path.name)),
            key=lambda each: each.stat().st_mtime,
        )
        for old in kept[:-MAX_KEPT]:
            old.unlink(missing_ok=True)


class Builder:
    """Builds programs for one device.

    :param ask: does :meth:`Binaries.duty`, by the name ``compile``.
    """

    def __init__(
        self, opened: cl.Device, found: devices.Found, ask: helper.Ask
    ) -> None:
        self._opened = opened
        self._found = found
        self._ask = ask

    def code(self, loaded: bitstreams.Bitstream) -> bytes:
        """Return the binary of a bitstream.

        :raises DriverError: ``KERNEL_BUILD_FAILED``.
        """
        if loaded.kind != formats.OPENCL_SOURCE:
            return loaded.code
        return self._compiled(loaded.code)

    def wiper(self, wait: runners.Wait) -> wiping.Wiper | None:
        """Return what clears local memory; None if there is no compiler."""
        from fpgapool.drivers.opencl import programs
        from fpgapool.drivers.opencl import wiping

        if not self._found.has_compiler:
            return None
        binary = self._compiled(wiping.SOURCE)
        program = programs.Program(self._opened, wiping.MANIFEST, binary)
        return wiping.Wiper(program, wait)

    def _compiled(self, source: bytes) -> bytes:
        """Return a source's binary for this device."""
        return self._ask(
            "compile",
            source,
            platform=self._found.platform,
            device=self._found.name,
            platform_version=self._opened.platform.version,
            driver_version=self._opened.driver_version,
        )
