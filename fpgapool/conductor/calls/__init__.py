# SPDX-License-Identifier: Apache-2.0

"""The methods that agents, front doors and the API call, by RPC.

``sessions``, ``groups``, ``operators``, ``audits``
    The calls, by subject; :mod:`fpgapool.conductor.rpc` combines them.
``base``
    What they share: checking arguments, waiting for the engine's answers, and
    limiting the number of waiting threads.
``checks``
    Checks of payloads, and of who may send them.

A handler makes no decisions: it queues an input or a query for the pump's
thread.
"""
