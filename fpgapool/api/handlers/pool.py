# SPDX-License-Identifier: Apache-2.0

"""The pool's summary and snapshot."""

from __future__ import annotations

import functools

from fpgapool.api import call as calls
from fpgapool.api.http import rights
from fpgapool.vocabulary import states


def show(call: calls.Call) -> calls.Answer:
    """Show a summary of the pool."""
    now, call.recorded = call.backends.pool_now()
    pool = call.backends.inventory.get()
    # The use of this privilege is audited, so it is checked at most once, and
    # only if the response would show another project's data.
    sees_all = functools.cache(lambda: call.may(rights.SESSIONS_ALL_PROJECTS))
    return calls.Answer(
        document={
            "pool": {
                "strategy": now["strategy"],
                "waiting": now["sessions"].get(states.QUEUED, 0),
                "sessions": now["sessions"],
                "hosts": pool.summary(
                    frozenset(now["unusable_slots"]),
                    lambda key: calls.public_key(call, key, sees_all),
                ),
            }
        }
    )


def snapshot(call: calls.Call) -> calls.Answer:
    """Show the data that Nova's scheduler uses."""
    found, call.recorded = call.backends.snapshot.get()
    return call.tagged(found["generation"], document={"snapshot": found})
