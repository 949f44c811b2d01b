# SPDX-License-Identifier: Apache-2.0

"""The protocols between clients, workers and desks, as bytes.

``frames`` defines the frames of the data plane, ``stream`` the two directions
of a session, ``blocks`` named blocks of data, and ``messages`` the JSON
messages of front doors and control sockets. ``groups`` and ``records`` define
what the clients, desks and members of a group exchange. Sockets, threads and
memory are the callers' responsibility.
"""
