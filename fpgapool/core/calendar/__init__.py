# SPDX-License-Identifier: Apache-2.0

"""Reservations by calendar: slots that a project has from a time to another.

``spans``
    The times of a reservation, which may recur.
``plan``
    Which slots are promised when: whether another reservation fits beside all
    earlier promises, and when it does next.
``promises``
    What the promises mean for a slot now: whether a job may have it.

The conductor keeps the plan, and tells the core which slots are promised now
and soon (:class:`~fpgapool.core.events.CalendarChanged`).
"""
