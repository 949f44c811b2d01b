# SPDX-License-Identifier: Apache-2.0

"""The worker: the process of one slot. It outlives its agent.

``state``
    The state machine of the slot; it decides, and has no effects.
``service``
    Carries out its decisions; the main thread.
``orders``
    Requests of the agent, checked.
``settings``
    From the agent.
``watch``
    Limits of a connected session; pure.
``hello``, ``desk``
    Admit the client of the present assignment, and open its session.
``tasks``
    Runs the tasks of a group's desk instead, if the slot is a member.
``data``
    The data plane of a session.

``python -m fpgapool.agent.worker`` is started by an agent. It never opens the
database or the message bus, and knows one slot only.
"""
