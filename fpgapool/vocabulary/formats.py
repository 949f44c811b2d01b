# SPDX-License-Identifier: Apache-2.0

"""Formats of a bitstream's file."""

#: For one kind of board.
BINARY = "binary"
#: A description that the emulator reads
#: (:mod:`fpgapool.objects.declaration`).
DECLARATION = "declaration"
#: Packages of these kinds (:mod:`fpgapool.drivers.opencl.contents.package`): OpenCL C,
#: the binary of a device's compiler, and what AMD's linker makes for a board.
OPENCL_SOURCE = "opencl-source"
OPENCL_BINARY = "opencl-binary"
XCLBIN = "xclbin"

PACKAGES = (OPENCL_SOURCE, OPENCL_BINARY, XCLBIN)
#: On a device that is a processor these are native code in a worker, with all
#: rights of its user.
NATIVE_CODE = (OPENCL_SOURCE, OPENCL_BINARY)
FORMATS = (BINARY, DECLARATION, *PACKAGES)
