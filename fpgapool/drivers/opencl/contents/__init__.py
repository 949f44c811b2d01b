# SPDX-License-Identifier: Apache-2.0

"""Reads OpenCL bitstream files, without loading an OpenCL runtime.

* ``package`` reads and writes the file: a ``manifest`` and a payload.
* ``manifest`` describes how kernels are called, with ``expressions``, types of
  parameters (``params``) and constants that the host computes (``preparers``).
* ``profiles`` derives an accelerator's profile from a manifest.
* ``xclbin``: the payload for AMD boards; ``parts`` reads parts of large files.
* ``bitstreams`` finds and checks what a driver must program.

The bitstream library uses this package to read tenants' files, and the driver
to read what it programs. Nothing in a file is trusted.
"""
