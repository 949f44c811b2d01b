# SPDX-License-Identifier: Apache-2.0

"""How many slots each group should have.

``rules.members`` and the simulator ask; they know the slots and move them.
Nothing here knows a slot.

``groups``
    All groups of a pool, and the moves that bring them to their sizes.
``group``
    One group: its size, its state, and what its tasks did.
``elasticity``
    The interface of a policy that sizes groups.
``goals``
    Deadlines and rates of groups.
``runtimes``
    Estimates of the time that tasks take.
``apportion``
    Divides whole slots between groups.
"""
