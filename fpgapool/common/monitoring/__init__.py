# SPDX-License-Identifier: Apache-2.0

"""Monitoring of a service: its logs, audit log and metrics.

``tallies``, ``ratelimit`` and ``lost_lines`` need only the standard library,
so that workers and the scheduling core can use them.
"""
