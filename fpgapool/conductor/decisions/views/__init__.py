# SPDX-License-Identifier: Apache-2.0

"""What others see of the pool; nothing here decides.

``questions``
    Queries, on the pump's thread.
``summary``
    Figures for the API and metrics.
``audit``
    Differences between database, leader and agents.
``journal``
    Notifications, derived from the rows that were written.
"""
