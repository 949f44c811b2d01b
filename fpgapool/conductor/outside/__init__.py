# SPDX-License-Identifier: Apache-2.0

"""Other services of the cloud, as the leader sees them.

``placement_sync``, ``placement_plan``
    Devices in Placement, and the reservations of their slots.
``instance_watch``
    Instances and compute nodes in Nova.
``keystone_limits``
    Limits of projects in Keystone.
``notifications``
    What other services hear of changes.

Each has its own thread, so that the pump waits for none of them.
"""
