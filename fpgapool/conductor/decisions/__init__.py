# SPDX-License-Identifier: Apache-2.0

"""The conductor's decisions, which turn inputs and time into rows and
messages.

``engine``
    Calls the rooms; the pump of :mod:`fpgapool.conductor.runtime` calls it.
``pool``
    The leader's state, divided into the parts that rooms use.
``parts``
    What all rooms share: the clock, the outbox and the link to the core.
``inputs``, ``effects``
    The inputs, and the rows and messages that result.
``requests``
    Clients' requests for sessions and groups: admission, quotas, and the state
    of both.
``assignments``
    Slots and their holders: orders, agents' reports, ends, usage.
``hardware``
    Hosts, devices, slots, their faults, and what they can run.
``views``
    Views of the pool for others: queries, figures, audits, notifications.
``restoring``
    Restores the state of a new leader from the rows.
``usage``, ``limits``
    Projects' usage; checks of values that go into rows or come from them.

Nothing here does I/O, reads a clock or starts a thread.
"""
