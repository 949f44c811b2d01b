# SPDX-License-Identifier: Apache-2.0

"""The conductor's decisions: inputs and time in, rows and messages out.

``engine``
    Calls the rooms; the pump of :mod:`fpgapool.conductor.runtime` calls it.
``pool``
    The leader's knowledge, in the parts that rooms get.
``parts``
    What rooms share: clock, outbox, the way to the core.
``inputs``, ``effects``
    What goes in and what comes out.
``requests``
    Clients ask for sessions and groups: admission, quotas, and their books.
``assignments``
    Slots and their holders: orders, agents' reports, ends, usage.
``hardware``
    Hosts, devices, slots, their faults, and what they can run.
``views``
    What others see of the pool: queries, figures, audits, notifications.
``restoring``
    How a new leader takes over the rows.
``usage``, ``limits``
    Projects' usage; checks of values before they become rows, or of rows.

Nothing here does I/O, reads a clock or has a thread.
"""
