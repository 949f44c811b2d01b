# SPDX-License-Identifier: Apache-2.0

"""Turns the source or binary in a package into a program for a device.

``building`` makes programs for the driver, and caches compiled binaries.
``compiler`` compiles in a separate process, whose privileges ``confinement``
drops. ``fpgapool-manage bitstream build`` also uses the compiler.
"""

#: Compiler options for all kernels.
BUILD_OPTIONS = ("-cl-std=CL1.2", "-cl-kernel-arg-info")
