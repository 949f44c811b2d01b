# SPDX-License-Identifier: Apache-2.0

"""Doors: how a program sends requests to the pool.

:mod:`.door` is the interface of all doors. :mod:`.frontdoor` uses the socket
on the program's own host, and :mod:`.apidoor` the REST API with the requests
of :mod:`.apirequests`; :mod:`.instance` finds credentials for the API in a VM.
:mod:`.asking` enters one of them, for one request or for longer;
:mod:`.groupdoor` becomes a client of a group through either. :mod:`.view` has
a door's description of a session.

Sessions, groups, dry runs and lists use doors. A door never carries data, and
never connects to a worker or a desk.
"""
