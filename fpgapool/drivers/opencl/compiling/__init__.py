# SPDX-License-Identifier: Apache-2.0

"""From the source or binary in a package to a program for a device.

``building`` makes programs for the driver, and keeps the binaries of sources;
``compiler`` compiles in a process of its own, whose rights ``confinement``
takes away. ``fpgapool-manage bitstream build`` compiles, too.
"""
