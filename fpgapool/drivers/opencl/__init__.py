# SPDX-License-Identifier: Apache-2.0

"""OpenCL devices: boards with XRT, GPUs, and processors with PoCL."""

import os

# Sources of tenants do not go into a directory of the worker's user.
os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
