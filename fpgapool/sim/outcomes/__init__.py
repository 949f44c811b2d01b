# SPDX-License-Identifier: Apache-2.0

"""The outcome of a run.

``schedules`` has the result of each job, ``metrics`` measures schedules,
``usage`` adds up time, bytes and energy, and ``results`` writes all of it to a
file. ``group_results`` has the same for groups. ``gains`` compares strategies
over several seeds. Nothing here draws or prints.
"""
