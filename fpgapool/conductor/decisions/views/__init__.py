# SPDX-License-Identifier: Apache-2.0

"""Views of the pool for others; nothing here makes decisions.

``questions``
    Answers queries, on the pump's thread.
``summary``
    Figures for the API and metrics.
``audit``
    Differences between database, leader and agents.
``journal``
    Notifications, derived from committed rows.
"""
