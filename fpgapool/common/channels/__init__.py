# SPDX-License-Identifier: Apache-2.0

"""Bytes between processes: sockets, TLS, shared memory and doorbells.

Clients, agents and workers use them; standard library only. Frames and
messages are :mod:`fpgapool.protocol`'s.
"""
