# SPDX-License-Identifier: Apache-2.0

"""OpenCL devices: boards with XRT, GPUs, and processors with PoCL.

* ``driver`` is what workers and agents call; ``core`` computes for a session.
* ``devices`` reads the board file; ``probing`` asks ``survey``, a process of
  its own, which devices the runtimes have (``platforms``).
* ``contents`` and ``compiling``: bitstreams, and programs made of them.
* ``binding``, ``arguments``, ``programs`` and ``runner`` run kernels as a
  manifest says; ``waiting`` gives up a device that hangs, ``wiping`` clears
  its local memory.
* ``kernels``: sources for the built-in accelerators.
"""

import os

# Sources of tenants do not go into a directory of the worker's user.
os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
