# SPDX-License-Identifier: Apache-2.0

"""What agents, front doors and the API call, as parts of one RPC endpoint.

``sessions``, ``groups``, ``operators``, ``audits``
    The calls, by subject; :mod:`fpgapool.conductor.rpc` joins them.
``base``
    What they share: typed arguments, answers of the engine, and the bound of
    the threads that wait for them.
``checks``
    Checks of payloads, and of who may send them.

A handler decides nothing: it queues an input, or asks a question, for the
thread of the pump.
"""
