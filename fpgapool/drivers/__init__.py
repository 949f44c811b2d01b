# SPDX-License-Identifier: Apache-2.0

"""Drivers: each operates boards of one kind.

``base`` is the contract, ``loader`` finds drivers by name, ``selftest`` tests
a slot through its driver, ``documents`` reads board files, and ``common`` is
what drivers share. ``emulator``, ``fpga_region``, ``opencl`` and ``noop`` are
the drivers. Agents, workers and ``fpgapool-manage device`` use them; drivers
know nothing of sessions or the conductor.
"""
