# SPDX-License-Identifier: Apache-2.0

"""The conductor, which decides who gets which slot.

``service``
    The conductor process, on stand-by or as leader.
``rpc``, ``calls``
    The methods that agents and the API call. They check arguments, queue
    inputs and wait for answers.
``decisions``
    Turn inputs and time into rows and messages, without doing any I/O.
``runtime``
    The threads of a leader: pump, group commit, senders, election.
``outside``
    Communicates with Placement, Nova and Keystone, and sends notifications.
``counts``, ``metrics``
    The conductor's counters, exported as Prometheus metrics.

Only the leader's pump thread changes sessions, groups and slots.
"""
