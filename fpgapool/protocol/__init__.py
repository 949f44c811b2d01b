# SPDX-License-Identifier: Apache-2.0

"""The protocols between clients, workers and desks, as bytes.

``frames`` has the frames of the data plane, ``stream`` the two directions of a
session, and ``blocks`` data with names. ``messages`` has the JSON messages of
front doors and control sockets. ``groups`` and ``records`` have what clients,
desks and members of a group exchange. Sockets, threads and memory are left to
the callers.
"""
