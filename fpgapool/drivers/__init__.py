# SPDX-License-Identifier: Apache-2.0

"""Drivers: each operates one kind of board.

``base`` is the contract, ``loader`` finds drivers by name, ``selftest`` tests
a slot through its driver, ``helper`` does what a worker has no right to do,
``documents`` reads boards files, and ``common`` contains what drivers share.
The drivers are ``emulator``, ``fpga_region``, ``opencl`` and ``noop``. Agents,
workers and ``fpgapool-manage device`` use them; drivers do not depend on the
conductor.
"""
