# SPDX-License-Identifier: Apache-2.0

"""The worker: a slot's process, which may outlive its agent.

``state``
    The state machine of the slot; does no I/O.
``service``
    The main thread, which carries out the state machine's decisions.
``orders``
    The agent's requests, checked.
``settings``
    The settings from the agent.
``watch``
    Limits of a connected session; does no I/O.
``hello``, ``desk``
    Admit the client of the current assignment, and open its session.
``reach``
    Gets connections to other stages of a chain from the agent.
``tasks``
    Runs the tasks of a group's desk instead, if the slot is its member.
``data``
    The data plane of a session.

An agent's fork server forks it, as if by ``python -m fpgapool.agent.worker``.
It never accesses the database or the message bus, and serves only one slot.
"""
