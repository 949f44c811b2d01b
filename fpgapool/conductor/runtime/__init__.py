# SPDX-License-Identifier: Apache-2.0

"""The threads of a conductor, and the settings that they use.

``term``
    A leader's objects, which :mod:`..service` creates for each term.
``election``
    The lease and the epoch.
``pump``
    Passes inputs and time to the engine, in the thread that owns the pool.
``persistence``, ``sender``, ``batching``
    Commit rows, then send the messages that depend on them.
``dry_runs``, ``retention``, ``garbage``
    Limit the cost of dry runs, delete old rows, reduce garbage collection.
``settings``, ``strategy_loading``
    Read limits, strategy and elasticity policy from the configuration.
``threads``
    Threads whose failure stops the conductor.

Nothing here makes decisions about sessions.
"""
