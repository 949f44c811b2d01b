# SPDX-License-Identifier: Apache-2.0

"""OpenCL devices: boards with XRT, GPUs, and CPUs with PoCL.

* ``driver`` is what workers and agents call; ``core`` computes for a session.
* ``devices`` reads the boards file. ``probing`` starts ``survey``, a separate
  process, to find the devices of all runtimes (``platforms``).
* ``contents`` and ``compiling``: bitstreams, and the programs made from them.
* ``binding``, ``arguments``, ``programs`` and ``runner`` run kernels as a
  manifest describes; ``waiting`` gives up on a device that hangs, and
  ``wiping`` clears a device's local memory.
* ``kernels``: the built-in accelerators' sources.
"""

import os

# Keep tenants' sources out of the cache directory of the worker's user.
os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
