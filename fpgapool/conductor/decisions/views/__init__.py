# SPDX-License-Identifier: Apache-2.0

"""Shows the pool to others, without making decisions.

``questions``
    Answers queries, in the pump's thread.
``summary``
    Summaries for the API and metrics.
``shares``
    A project's share, and what is before one of its sessions.
``audit``
    Differences between database, leader and agents.
``journal``
    Notifications, derived from committed rows.
"""
