# SPDX-License-Identifier: Apache-2.0

"""Slots and their holders, from the core's instruction to the release.

``holds``, ``agent_orders``
    An assignment, its data rate, and the orders to agents about it.
``serving``
    Carries out the core's instructions about slots of sessions and groups.
``charging``
    What holders have used, for the usage of their projects.
``reports``, ``reconcile``
    Compare agents' reports with the assignments.
``desks``, ``desk_accounts``
    The desks of groups: orders, counts, and clients that are gone.

The core decides who gets a slot; nothing here does.
"""
