# SPDX-License-Identifier: Apache-2.0

"""The host of an agent: its boards, and its network device.

``boards``
    Health and power of the boards, read through the driver in other threads.
``energy``
    Divides the energy of boards among the holders of their slots; pure.
``monitor``
    Rate and counters of the network device, by netlink.
``shaping``
    Caps the share of the link that the data plane may take.

:mod:`fpgapool.agent.service` starts them and puts what they find into reports.
They decide nothing about slots.
"""
