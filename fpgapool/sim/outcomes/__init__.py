# SPDX-License-Identifier: Apache-2.0

"""What came out of a run.

``schedules`` is the result of each job, ``metrics`` measures schedules,
``usage`` adds up time, bytes and energy, and ``results`` puts all of it into a
file. ``group_results`` has the same of groups, ``gains`` compares strategies
over several seeds. Nothing here draws or prints.
"""
