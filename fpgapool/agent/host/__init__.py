# SPDX-License-Identifier: Apache-2.0

"""The agent's host: its boards and its network device.

``boards``
    Health and power of the boards, read through the driver in other threads.
``energy``
    Divides the boards' energy among their slots' holders; does no I/O.
``monitor``
    Reads the rate and counters of the network device through netlink.
``shaping``
    Caps the share of the link that the data plane may use.

:mod:`fpgapool.agent.service` starts them and reports their readings. They make
no decisions about slots.
"""
