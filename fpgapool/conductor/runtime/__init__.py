# SPDX-License-Identifier: Apache-2.0

"""The threads of a conductor, and what they need of the configuration.

``term``
    What exists only while a conductor leads; :mod:`..service` makes it.
``election``
    The lease and the epoch.
``pump``
    Feeds the engine with inputs and time, on the thread that owns the pool.
``persistence``, ``sender``, ``batching``
    Commit rows, and send the messages that wait for them.
``dry_runs``, ``retention``, ``garbage``
    Bound what dry runs cost, delete old rows, and spare the collector.
``settings``, ``strategy_loading``
    Limits, strategy and elasticity policy of the configuration.
``threads``
    Threads whose failure ends the conductor.

Nothing here decides anything about a session.
"""
