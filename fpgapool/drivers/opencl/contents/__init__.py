# SPDX-License-Identifier: Apache-2.0

"""Reads the files of OpenCL bitstreams. It loads no runtime of OpenCL.

* ``package`` reads and writes the file: a ``manifest`` and a payload.
* ``manifest`` says how kernels are called, with ``expressions``, the types of
  parameters (``params``) and constants that the host computes (``preparers``).
* ``profiles``: the accelerator's profile in a manifest.
* ``xclbin``: the payload for boards of AMD; ``parts`` reads parts of large
  files.
* ``bitstreams``: finds and checks what a driver is to program.

The library of bitstreams reads files of tenants with it, the driver what it
programs. Nothing in a file is trusted.
"""
