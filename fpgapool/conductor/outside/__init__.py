# SPDX-License-Identifier: Apache-2.0

"""Communication of the leader with other services of the cloud.

``placement_sync``, ``placement_plan``
    Devices in Placement, and the reservations of their slots.
``instance_watch``
    Instances and compute nodes in Nova.
``keystone_limits``
    Limits of projects in Keystone.
``notifications``
    Notifications of changes, for other services.

Each has its own thread, so that the pump does not wait for these services.
"""
