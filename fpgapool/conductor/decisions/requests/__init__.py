# SPDX-License-Identifier: Apache-2.0

"""Clients ask for slots, for a session or for a group.

``opening``, ``groups``
    The rooms: requests for sessions, and for groups and their clients.
``admission``, ``quotas``, ``instances``
    Whether a request is allowed: limits of the pool, of projects, and of
    instances.
``lives``
    Records, publishes and ends sessions.
``sessions``, ``group_book``
    What is known of each session, group and client.
``expected_waits``
    How long waiting sessions will wait.

The engine passes requests on; nothing here gives a slot to a holder.
"""
