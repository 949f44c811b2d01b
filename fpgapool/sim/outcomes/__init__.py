# SPDX-License-Identifier: Apache-2.0

"""The outcome of a run.

``schedules`` has the result of each job, ``metrics`` measures schedules,
``usage`` adds up time, bytes and energy, ``results`` writes all of it to a
file, and ``tables`` the jobs as a table. ``group_results`` has the same for
groups. ``gains`` compares strategies over several seeds. Nothing here draws or
prints.
"""
