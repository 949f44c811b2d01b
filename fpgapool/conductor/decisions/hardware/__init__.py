# SPDX-License-Identifier: Apache-2.0

"""Hosts, devices and slots, and what they can run.

``registry``
    All hosts, devices and slots, as agents report them.
``hosts``
    Lost hosts, and preparations that hang.
``operators``, ``administration``, ``reservations``
    Requests of operators: states, tests, reservations, limits.
``probation``, ``self_tests``
    Units that failures have taken out of use, and their tests.
``accelerators``, ``bitstreams``
    The library: its changes, and which slots fit an accelerator.
``power_caps``
    Caps on the power of slots.

Nothing here changes a session but through the parts of the pool that it gets.
"""
