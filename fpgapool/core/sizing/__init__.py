# SPDX-License-Identifier: Apache-2.0

"""Decides how many slots each group should have.

``rules.members`` and the simulator use it; they know the slots and move them.
Nothing here deals with individual slots.

``groups``
    All groups of a pool, and the moves that bring them to their sizes.
``group``
    One group: its size, its state, and its tasks.
``elasticity``
    The interface of a policy that sizes groups.
``goals``
    Deadlines and rates of groups.
``runtimes``
    Estimates of the time that tasks take.
``apportion``
    Divides whole slots between groups.
"""
