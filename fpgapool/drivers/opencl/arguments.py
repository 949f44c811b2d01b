# SPDX-License-Identifier: Apache-2.0

"""Checks and sets the arguments of kernels."""

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

#: For each kind of number, the OpenCL C types of arguments that accept it.
_TYPES = {
    "uint": ("uint", "int"),
    "ulong": ("ulong", "long"),
    "float": ("float",),
}

#: Address spaces of arguments, in the numbering of the standard or of XRT.
_SPACES = cl.kernel_arg_address_qualifier
_PRIVATE = (_SPACES.PRIVATE, 0)
_GLOBAL = (_SPACES.GLOBAL, _SPACES.CONSTANT, 1, 2)
_LOCAL = (_SPACES.LOCAL, 3)


def check(kernel: cl.Kernel, index: int, kind: str) -> None:
    """Check that a kernel's argument has the kind that the manifest states.

    Otherwise a runtime might misinterpret it; PoCL would use a number as an
    address.

    :raises InvalidManifest: if the argument has a different kind.
    """
    info = cl.kernel_arg_info
    try:
        space = kernel.get_arg_info(index, info.ADDRESS_QUALIFIER)
        name = kernel.get_arg_info(index, info.TYPE_NAME)
    except cl.Error:
        # Some binaries lack this information. It offers no protection anyway,
        # because the author of a binary can falsify it.
        return
    if kind == manifests.LOCAL:
        is_right = space in _LOCAL
    elif kind in _TYPES:
        # Newer releases of XRT return empty type names.
        is_right = space in _PRIVATE and name in (*_TYPES[kind], "")
    else:
        is_right = space in _GLOBAL
    if not is_right:
        raise manifests.InvalidManifest(
            f"arguments[{index}]: kernel {kernel.function_name!r} expects "
            f"{name!r:.80} here, not {kind}"
        )


class Setter:
    """Sets only those number arguments of a kernel that have changed.

    Setting an argument takes PyOpenCL 10 µs, as long as a launch.

    :param kernel: kernel whose numbers must not be set elsewhere.
    """

    def __init__(self, kernel: cl.Kernel) -> None:
        self.kernel = kernel
        self._values: dict[int, typing.Any] = {}

    def set_number(self, index: int, kind: str, value: typing.Any) -> None:
        """Set a number, or the size of local memory."""
        if self._values.get(index) == value:
            return
        # Forget the old value, because setting the new one may fail.
        self._values.pop(index, None)
        if kind == manifests.LOCAL:
            self.kernel.set_arg(index, cl.LocalMemory(value))
        else:
            self.kernel.set_arg(index, _NUMBERS[kind](value))
        self._values[index] = value
