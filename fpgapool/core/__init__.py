# SPDX-License-Identifier: Apache-2.0

"""The scheduling core: events and times in, instructions out.

The conductor and the simulator send events to a
:class:`~fpgapool.core.state.PoolState`. Nothing here reads a clock, does I/O,
starts a thread or draws a random number without a seed. Nothing here imports a
strategy, the database or a service.

What callers see:

``model``, ``events``, ``instructions``
    Values: the hardware and the jobs; what happened; what to do.
``state``
    ``PoolState.step(events, now)``, which ties all packages together.
``passes``
    One pass over the idle slots, which a step makes.
``what_if``
    The same on a copy of the pool, for dry runs.
``health``
    Which slots, boards and accelerators are out of use. The conductor uses it
    separately from the pool.

What strategies see:

``strategy``, ``preferences``
    The interface of a strategy, and what it needs from the pool.
``view``
    The pool during a pass, and the only way to assign a slot.

Packages, each with an overview of its own:

``queues``
    Waiting jobs, in the orders that passes need; shares of projects.
``topology``
    Hosts, boards, slots and their assignments; indexes over idle slots.
``sizing``
    How many slots each group should have.
``rules``
    What each event changes in queues and topology.
``calendar``
    Slots that projects have reserved for a time.

``ordered`` has sorted containers; ``native`` has the decorator of compiled
classes.
"""
