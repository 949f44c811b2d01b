# SPDX-License-Identifier: Apache-2.0

"""Hosts, devices and slots, and what they can run.

``registry``
    All hosts, devices and slots, as agents report them.
``hosts``
    Detects lost hosts and hanging preparations.
``operators``, ``administration``, ``reservations``
    Operators' requests: states, tests, reservations, limits.
``probation``, ``self_tests``
    Hardware that is out of service because of failures, and its tests.
``accelerators``, ``bitstreams``
    The library: its changes, and the slots that each accelerator fits.
``power_caps``
    Caps on the power of slots.
"""
