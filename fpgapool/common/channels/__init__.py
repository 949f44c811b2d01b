# SPDX-License-Identifier: Apache-2.0

"""Bytes between processes: sockets, TLS, shared memory and doorbells.

Clients, agents and workers use them. They need only the standard library.
Frames and messages are defined in :mod:`fpgapool.protocol`.
"""
