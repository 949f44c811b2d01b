# SPDX-License-Identifier: Apache-2.0

"""Formats of a bitstream's file."""

#: A file for one kind of board.
BINARY = "binary"
#: A description that the emulator reads
#: (:mod:`fpgapool.objects.declaration`).
DECLARATION = "declaration"
#: Packages (:mod:`fpgapool.drivers.opencl.contents.package`) that contain
#: OpenCL C, a binary made by a device's compiler, or a file that AMD's linker
#: made for a board.
OPENCL_SOURCE = "opencl-source"
OPENCL_BINARY = "opencl-binary"
XCLBIN = "xclbin"

PACKAGES = (OPENCL_SOURCE, OPENCL_BINARY, XCLBIN)
#: If the device is a processor, these run as native code in a worker, with
#: all rights of its user.
NATIVE_CODE = (OPENCL_SOURCE, OPENCL_BINARY)
FORMATS = (BINARY, DECLARATION, *PACKAGES)
