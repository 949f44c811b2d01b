# SPDX-License-Identifier: Apache-2.0

"""Hosts, boards, slots and their assignments.

The rules change them, and strategies read them through the view. Nothing here
depends on the order in which jobs wait.

``slots``
    Records of a host, a slot and an assignment.
``slot_table``
    All of them, with indexes over idle slots.
``boards``, ``loads``
    Boards as vectors, and the rates on pipes, for strategies that compare all
    pairs.
``power``
    Caps on the power of slots in use.
``reservations``
    Slots that are reserved for instances.
"""
