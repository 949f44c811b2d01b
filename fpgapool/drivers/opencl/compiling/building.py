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
import typing

from fpgapool.drivers import common
from fpgapool.drivers.opencl import devices
from fpgapool.drivers.opencl.compiling import compiler
from fpgapool.drivers.opencl.contents import bitstreams
from fpgapool.vocabulary import formats

if typing.TYPE_CHECKING:
    import pyopencl as cl

    from fpgapool.drivers.opencl import runner as runners
    from fpgapool.drivers.opencl import wiping

MAX_KEPT = 256

#: Names the directory where PoCL caches compiled programs.
POCL_VARIABLE = "POCL_CACHE_DIR"


def prepare(directory: pathlib.Path, name: str) -> None:
    """Prepare this process for OpenCL runtimes before one is loaded.

    PoCL caches what it compiles. Workers of different projects must not share
    a cache, so each process gets its own directory.
    """
    if POCL_VARIABLE not in os.environ:
        path = directory / f"{name}.pocl"
        shutil.rmtree(path, ignore_errors=True)
        os.environ[POCL_VARIABLE] = str(path)


class Builder:
    def __init__(
        self,
        opened: cl.Device,
        found: devices.Found,
        directory: pathlib.Path,
    ) -> None:
        self._opened = opened
        self._found = found
        self._directory = directory

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
        path = self._directory / self._name(source)
        with self._alone(path.name):
            return self._read_or_compile(path, source)

    @contextlib.contextmanager
    def _alone(self, name: str) -> collections.abc.Iterator[None]:
        """Make other workers wait while this one compiles a source."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(
            self._directory / f"{name[:2]}.lock",
            os.O_CREAT | os.O_RDWR | os.O_CLOEXEC,
            0o600,
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _read_or_compile(self, path: pathlib.Path, source: bytes) -> bytes:
        with contextlib.suppress(OSError):
            return path.read_bytes()
        # Compile in a separate process, because the source is a tenant's.
        binary = compiler.compile_source(
            source,
            (),
            glob.escape(self._found.platform),
            glob.escape(self._found.name),
        )
        with contextlib.suppress(OSError):
            self._keep(path, binary)
        return binary

    def _name(self, source: bytes) -> str:
        from fpgapool.drivers.opencl import programs

        # A binary works only with one device and one version of its runtime.
        texts = (
            self._found.platform,
            self._found.name,
            self._opened.platform.version,
            self._opened.driver_version,
            *programs.BUILD_OPTIONS,
        )
        digest = hashlib.sha256("\0".join(texts).encode())
        digest.update(b"\0" + source)
        return digest.hexdigest()

    def _keep(self, path: pathlib.Path, binary: bytes) -> None:
        common.replace_file(path, binary)
        kept = sorted(
            self._directory.glob("?" * len(path.name)),
            key=lambda each: each.stat().st_mtime,
        )
        for old in kept[:-MAX_KEPT]:
            old.unlink(missing_ok=True)
