# SPDX-License-Identifier: Apache-2.0

"""Reservations by calendar.

``stored``
    Reservations as rows of the table of reservations.
``book``
    All reservations, their slots, and whether another one fits.
``keeping``
    The room: makes, changes, begins and ends them, and moves them to other
    slots when boards fail.

What fits is decided in :mod:`fpgapool.core.calendar`. Called by
:mod:`..engine`.
"""
