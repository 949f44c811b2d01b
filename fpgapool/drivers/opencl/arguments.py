# SPDX-License-Identifier: Apache-2.0

"""Arguments of kernels."""

from __future__ import annotations

import typing

import numpy
import pyopencl as cl

from fpgapool.drivers.opencl.contents import manifest as manifests

_NUMBERS = {
    "uint": numpy.uint32,
    "ulong": numpy.uint64,
    "float": numpy.float32,
}

#: Types of a kernel's arguments that may get a number.
_TYPES = {
    "uint": ("uint", "int"),
    "ulong": ("ulong", "long"),
    "float": ("float",),
}

#: Address spaces of arguments, as numbered by the standard and by XRT.
_SPACES = cl.kernel_arg_address_qualifier
_PRIVATE = (_SPACES.PRIVATE, 0)
_GLOBAL = (_SPACES.GLOBAL, _SPACES.CONSTANT, 1, 2)
_LOCAL = (_SPACES.LOCAL, 3)


def check(kernel: cl.Kernel, index: int, kind: str) -> None:
    """Refuse an argument that a runtime might mistake for another one.

    PoCL uses a number as an address.

    :raises InvalidManifest: if the kernel has another kind there.
    """
    info = cl.kernel_arg_info
    try:
        space = kernel.get_arg_info(index, info.ADDRESS_QUALIFIER)
        name = kernel.get_arg_info(index, info.TYPE_NAME)
    except cl.Error:
        # Some binaries lack this information, and their authors could lie.
        return
    if kind == manifests.LOCAL:
        is_right = space in _LOCAL
    elif kind in _TYPES:
        # Newer releases of XRT name no types.
        is_right = space in _PRIVATE and name in (*_TYPES[kind], "")
    else:
        is_right = space in _GLOBAL
    if not is_right:
        raise manifests.InvalidManifest(
            f"arguments[{index}]: kernel {kernel.function_name!r} has "
            f"{name!r:.80} there, not {kind}"
        )


class Setter:
    """Sets the numbers of a kernel, and only those that have changed.

    PyOpenCL takes 10 µs for each, as much as for a launch.

    :param kernel: its numbers must not be set elsewhere.
    """

    def __init__(self, kernel: cl.Kernel) -> None:
        self.kernel = kernel
        self._values: dict[int, typing.Any] = {}

    def set_number(self, index: int, kind: str, value: typing.Any) -> None:
        """Set a number, or the size of local memory."""
        if self._values.get(index) == value:
            return
        # Unknown until it is set.
        self._values.pop(index, None)
        if kind == manifests.LOCAL:
            self.kernel.set_arg(index, cl.LocalMemory(value))
        else:
            self.kernel.set_arg(index, _NUMBERS[kind](value))
        self._values[index] = value
