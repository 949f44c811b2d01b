# SPDX-License-Identifier: Apache-2.0

"""The conductor, which decides who gets which slot.

``service``
    A conductor, both on stand-by and as leader; the command starts it.
``rpc``, ``calls``
    The methods that agents and the API call. They check arguments, queue
    inputs and wait for answers.
``decisions``
    Turn inputs and time into rows and messages, without any input or output.
``runtime``
    The threads of a leader: pump, group commit, senders, election.
``outside``
    Communication with Placement, Nova and Keystone, and notifications.
``counts``, ``metrics``
    The conductor's counters, and their metrics for Prometheus.

Only the leader changes sessions, groups and slots, and only on the thread of
its pump.
"""
