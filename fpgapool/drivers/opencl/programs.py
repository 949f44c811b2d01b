# SPDX-License-Identifier: Apache-2.0

"""Kernels of bitstreams, built for one OpenCL device."""

from __future__ import annotations

import types

import pyopencl as cl

from fpgapool.drivers import base
from fpgapool.drivers.opencl import arguments
from fpgapool.drivers.opencl import compiling
from fpgapool.drivers.opencl.contents import manifest as manifests
from fpgapool.vocabulary import codes

_conformant_version = cl.Device._get_cl_version


def _version(device: cl.Device) -> tuple[int, int]:
    """Return the OpenCL version of a device.

    XRT reports "OpenCL 1.0", without the trailing space that the standard
    requires. It supports those parts of version 1.2 that fpgapool uses.
    """
    try:
        return _conformant_version(device)
    except RuntimeError:
        return (1, 2)


# PyOpenCL queries the version before it fills a buffer or waits for several
# events.
cl.Device._get_cl_version = _version

_MAX_LOG_CHARS = 2000


def is_unified(device: cl.Device) -> bool:
    """Whether a device computes in the host's memory.

    XRT reports this for all boards, but copies the data to the board's memory.
    """
    is_board = device.type & cl.device_type.ACCELERATOR
    return bool(device.host_unified_memory) and not is_board


def is_coherent(device: cl.Device) -> bool:
    """Whether a device and its host see each other's writes to memory.

    The runtime must report this for all system memory. If the device is the
    host's CPU, a report for the runtime's own memory is enough, because the
    CPU has only one kind of memory.
    """
    shared = cl.device_svm_capabilities
    needed = shared.FINE_GRAIN_SYSTEM
    if device.type & cl.device_type.CPU:
        needed |= shared.FINE_GRAIN_BUFFER
    try:
        return bool(device.svm_capabilities & needed)
    except cl.Error:
        # Versions of OpenCL before 2.0 do not have this property.
        return False


class _Translated:
    """Translates OpenCL errors into driver errors.

    It is not a generator, because generators are too slow for small pieces.
    """

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        if isinstance(error, cl.Error):
            code = codes.DEVICE_FAILED
            if isinstance(error, cl.MemoryError):
                code = codes.DEVICE_OUT_OF_MEMORY
            raise base.DriverError(code, str(error)) from error


#: Use it as ``with programs.translated:``.
translated = _Translated()


class Program:
    """The kernels of a bitstream, built for one device.

    The constructor blocks until the device's compiler has finished.

    :param code: a binary for this device.
    :param memory_bytes: device memory that a session may use; None: all.
    :param instance: instance of all kernels in an xclbin; empty: any.
    :raises InvalidManifest: if a kernel is missing, or its arguments differ
        from those in the manifest.
    :raises DriverError: ``KERNEL_BUILD_FAILED``, with the end of the
        compiler's log, or ``DEVICE_FAILED``.
    """

    def __init__(
        self,
        device: cl.Device,
        manifest: manifests.Manifest,
        code: bytes,
        memory_bytes: int | None = None,
        instance: str = "",
    ) -> None:
        with translated:
            self.context = cl.Context([device])
        self.device = device
        self.manifest = manifest
        self.memory_bytes = memory_bytes
        self._instance = instance
        try:
            program = cl.Program(self.context, [device], [code])
            self._program = program.build(
                list(compiling.BUILD_OPTIONS), [device]
            )
        except cl.Error as error:
            raise base.DriverError(
                codes.KERNEL_BUILD_FAILED, str(error)[-_MAX_LOG_CHARS:]
            ) from None
        for variant in manifest.variants:
            for step in variant.steps():
                self.kernel(step)

    def kernel(self, step: manifests.Step) -> cl.Kernel:
        """Create a kernel object that shares its arguments with no other.

        :raises InvalidManifest: if there is no such kernel.
        """
        name = step.kernel
        if self._instance and ":" not in name:
            name = f"{name}:{{{self._instance}}}"
        try:
            kernel = cl.Kernel(self._program, name)
        except cl.Error:
            raise manifests.InvalidManifest(
                f"kernel: the program has no kernel {name!r}"
            ) from None
        if kernel.num_args != len(step.arguments):
            raise manifests.InvalidManifest(
                f"arguments: kernel {step.kernel!r} has {kernel.num_args} "
                f"arguments, not {len(step.arguments)}"
            )
        for index, argument in enumerate(step.arguments):
            arguments.check(kernel, index, argument.kind)
        return kernel
