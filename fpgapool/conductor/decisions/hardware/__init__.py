# SPDX-License-Identifier: Apache-2.0

"""Hosts, devices and slots, and what they can run.

``registry``
    All hosts, devices and slots, as agents report them.
``hosts``
    Detects lost hosts and preparations that hang.
``operators``, ``administration``, ``reservations``
    Operators' requests: states, tests, reservations, limits.
``probation``, ``self_tests``
    Units that are out of service because of failures, and their tests.
``accelerators``, ``bitstreams``
    The library: its changes, and which slots each accelerator fits.
``power_caps``
    Caps on the power of slots.

This package changes sessions only through the parts of the pool passed to it.
"""
