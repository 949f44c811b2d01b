# SPDX-License-Identifier: Apache-2.0

"""OpenCL devices: boards with XRT, GPUs, and processors with PoCL."""
