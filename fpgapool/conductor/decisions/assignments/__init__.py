# SPDX-License-Identifier: Apache-2.0

"""Slots and their holders, from the core's instruction to the release.

``holds``, ``agent_orders``
    Assignments, their data rates, and the orders to agents.
``serving``
    Carries out the core's instructions about slots of sessions and groups.
``charging``
    Charges holders' use of slots to their projects.
``reports``, ``reconcile``
    Compare agents' reports with the assignments.
``desks``, ``desk_accounts``
    The desks of groups: orders, task counts, disconnected clients.

The core, not this package, decides who gets a slot.
"""
