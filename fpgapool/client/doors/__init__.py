# SPDX-License-Identifier: Apache-2.0

"""Doors: how a program sends requests to the pool.

:mod:`.door` is the interface of all doors. :mod:`.frontdoor` uses the socket
on the program's own host, and :mod:`.apidoor` the REST API with the requests
of :mod:`.apirequests`; :mod:`.instance` finds credentials for the API in a VM.
:mod:`.asking` connects to a door, for one request or for longer;
:mod:`.groupdoor` attaches a program to a group through any door. :mod:`.view`
describes a session as a door reports it.

Sessions, groups, dry runs and lists use doors. A door never carries data, and
never connects to a worker or a desk.
"""
