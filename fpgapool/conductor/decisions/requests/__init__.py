# SPDX-License-Identifier: Apache-2.0

"""Clients' requests for sessions and groups.

``opening``, ``groups``
    Handle requests for sessions, and for groups and their clients.
``admission``, ``quotas``, ``instances``
    Check whether the limits of pool, project and instance allow a request.
``lives``
    Records, publishes and ends sessions.
``sessions``, ``group_book``
    The state of each session, group and client.
``expected_waits``
    Estimates how long sessions will wait for a slot.
``wait_history``
    What the estimates learn from: arrivals, overtaking, earlier errors.

Nothing here assigns slots: the core does.
"""
