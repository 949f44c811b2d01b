# SPDX-License-Identifier: Apache-2.0

"""The threads of a conductor, and the settings that they use.

``term``
    The objects that exist only while a conductor leads; :mod:`..service`
    creates them.
``election``
    The lease and the epoch.
``pump``
    Feeds the engine with inputs and time, on the thread that owns the pool.
``persistence``, ``sender``, ``batching``
    Commit rows, then send the messages that depend on them.
``dry_runs``, ``retention``, ``garbage``
    Limit the cost of dry runs, delete old rows, and relieve the garbage
    collector.
``settings``, ``strategy_loading``
    Read the limits, the strategy and the elasticity policy from the
    configuration.
``threads``
    Threads whose failure stops the conductor.

Nothing here makes decisions about sessions.
"""
