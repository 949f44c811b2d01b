# SPDX-License-Identifier: Apache-2.0

"""Turns inputs and time into rows and messages.

``engine``
    Calls the rooms. The pump in :mod:`fpgapool.conductor.runtime` calls it.
``pool``
    The leader's state, divided into parts that the rooms use.
``parts``
    Used by all rooms: the clock, the outbox and the link to the core.
``inputs``, ``effects``
    The inputs, and the rows and messages that result.
``requests``
    Clients' requests for sessions and groups: admission, quotas, state.
``assignments``
    Slots and their holders: orders, agents' reports, ends, usage.
``hardware``
    Hosts, devices, slots, their faults, and what they can run.
``views``
    Show the pool to others: queries, summaries, audits, notifications.
``restoring``
    Restores a new leader's state from the rows.
``usage``, ``limits``
    Projects' usage; checks of values that are stored in rows.

Nothing here does I/O, reads a clock or starts a thread.
"""
