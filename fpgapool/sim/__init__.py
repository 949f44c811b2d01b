# SPDX-License-Identifier: Apache-2.0

"""Simulates clouds whose slots the pool's own code assigns.

``inputs`` has scenarios and what creates them. ``simulation`` runs their jobs,
and ``elastic`` their groups, through ``engines``. ``outcomes`` measures a run,
``plots`` draws it. ``experiments`` does many runs: sweeps, and the tuning of
queues. ``commands`` is ``fpgapool-sim``. ``models`` lets the laboratory in
``reproduction`` add models; this package imports neither the laboratory nor a
service of the pool.
"""
