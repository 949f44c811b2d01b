# SPDX-License-Identifier: Apache-2.0

"""Recorded jobs.

Each format has a reader that yields the same :class:`rows.Row`: ``swf``,
``sacct``, ``batsim``, and ``table`` for CSV. ``reading`` finds the format of a
file. ``mapping`` makes a simulation's jobs of the rows.
"""
