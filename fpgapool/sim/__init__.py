# SPDX-License-Identifier: Apache-2.0

"""The simulator: what a cloud would do, decided by the pool's own code.

``inputs`` has scenarios and what creates them. ``simulation`` runs their jobs,
and ``elastic`` their groups, through ``engines``. ``outcomes`` measures a run,
``plots`` draws it. ``experiments`` are many runs: sweeps, and the tuning of
queues. ``commands`` is ``fpgapool-sim``. ``models`` lets the laboratory in
``reproduction`` add models; this package never imports the laboratory, nor
anything that runs in a pool.
"""
