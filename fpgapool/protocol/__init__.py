# SPDX-License-Identifier: Apache-2.0

"""What goes over the wires between clients, workers and desks; bytes only.

``frames`` has the data plane's frames, ``stream`` the two directions of a
session, ``blocks`` data with names; ``messages`` the JSON of front doors and
control sockets; ``groups`` and ``records`` what the clients, desks and members
of a group exchange. Sockets, threads and memory belong to those who use it.
"""
