# SPDX-License-Identifier: Apache-2.0

"""Clients' requests for slots, for a session or a group.

``opening``, ``groups``
    Handle requests for sessions, and for groups and their clients.
``admission``, ``quotas``, ``instances``
    Check whether a request is allowed: limits of the pool, of projects, and of
    instances.
``lives``
    Records, publishes and ends sessions.
``sessions``, ``group_book``
    The state of each session, group and client.
``expected_waits``
    Estimates how long waiting sessions will have to wait.
``wait_history``
    What the estimates learn from: arrivals, who overtakes whom, earlier errors.

The engine passes requests on to the core; nothing here gives a slot to a
holder.
"""
