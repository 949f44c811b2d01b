# SPDX-License-Identifier: Apache-2.0

"""The conductor, which decides who gets which slot.

``service``
    A conductor as stand-by and as leader; the command starts it.
``rpc``, ``calls``
    What agents and the API call: arguments are checked, inputs queued, and
    answers awaited.
``decisions``
    Inputs and time in, rows and messages out. Pure.
``runtime``
    The threads of a leader: pump, group commit, senders, election.
``outside``
    Placement, Nova, Keystone and notifications.
``counts``, ``metrics``
    What the leader counts, and how Prometheus reads it.

Only the leader changes sessions, groups and slots, and only on the thread of
its pump.
"""
