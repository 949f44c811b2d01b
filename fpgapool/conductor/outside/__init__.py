# SPDX-License-Identifier: Apache-2.0

"""The leader's communication with other OpenStack services.

``placement_sync``, ``placement_plan``
    Devices in Placement, and the reservations of their slots.
``instance_watch``
    Instances and compute nodes in Nova.
``keystone_limits``, ``keystone_tree``
    Projects' limits in Keystone, and where projects are below its domains.
    ``following`` has what both do.
``notifications``
    Notifications of changes in the pool.

Each has its own thread, so that the pump does not wait for these services.
"""
