# SPDX-License-Identifier: Apache-2.0

"""The RPC methods that agents, front doors and the API call.

``sessions``, ``groups``, ``operators``, ``audits``
    The calls, by subject; :mod:`fpgapool.conductor.rpc` combines them.
``base``
    Their base class: it checks arguments, waits for the engine's answers and
    limits the number of waiting threads.
``checks``
    Check payloads, and who may send them.

Handlers make no decisions: they queue inputs and queries for the pump.
"""
