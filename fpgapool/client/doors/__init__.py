# SPDX-License-Identifier: Apache-2.0

"""Doors: how a program sends requests to the pool.

:mod:`.door` is what all have in common. :mod:`.frontdoor` is the socket of
the program's own host, :mod:`.apidoor` the REST API with the requests of
:mod:`.apirequests`; :mod:`.instance` finds credentials for it in a VM.
:mod:`.asking` enters one of them, for one question or for longer;
:mod:`.groupdoor` becomes a client of a group through either. :mod:`.view` is
how a door describes a session.

Sessions, groups, dry runs and lists call it. It never sends data, and it never
connects to a worker or a desk.
"""
