# SPDX-License-Identifier: Apache-2.0

"""Counts of a conductor since its start, over all its terms."""

from __future__ import annotations

import collections
import dataclasses
import functools

from fpgapool.common.monitoring import tallies

_short = functools.partial(tallies.Histogram, tallies.SHORT_S)
_long = functools.partial(tallies.Histogram, tallies.LONG_S)


@dataclasses.dataclass(eq=False, slots=True)
class Counts:
    """Counts for metrics.

    Each is changed by one thread only, so they need no lock.

    :ivar opened: admitted sessions.
    :ivar ended: sessions, by state and code.
    :ivar deadlines: of ended sessions, by project and ``met`` or ``missed``.
    :ivar taken_back: slots taken from sessions, by project and code.
    :ivar waits_s: from a session's arrival to its first slot.
    :ivar service_s: the time that sessions held slots.
    :ivar decisions_s: the time to decide on each batch of inputs.
    :ivar batch_inputs: the number of inputs in each batch.
    :ivar commits_s: the time of each successful transaction.
    :ivar commit_failures: postponed transactions.
    :ivar purged_rows: deleted rows of what ended long ago, by table.
    :ivar dropped: dropped messages to agents, by sending thread.
    :ivar inputs_dropped: inputs of clients and agents, dropped because too
        many waited.
    :ivar notifications_dropped: because too many waited.
    :ivar placement_failures: failed comparisons, and failed queries of
        allocations.
    :ivar placement_conflicts: changes retried after conflicts.
    :ivar reconciled: corrected differences, by kind.
    :ivar group_busy_s: the time for which these tasks, and locks, had slots.
    :ivar group_slot_s: the time for which groups had slots: ``programming``
        and ``serving``.
    :ivar group_resizes: changes of the sizes that groups should have: ``grow``
        and ``shrink``.
    """

    opened: int = 0
    refused: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    ended: collections.Counter[tuple[str, str]] = dataclasses.field(
        default_factory=collections.Counter
    )
    deadlines: collections.Counter[tuple[str, str]] = dataclasses.field(
        default_factory=collections.Counter
    )
    taken_back: collections.Counter[tuple[str, str]] = dataclasses.field(
        default_factory=collections.Counter
    )
    waits_s: tallies.Histogram = dataclasses.field(default_factory=_long)
    service_s: tallies.Histogram = dataclasses.field(default_factory=_long)
    decisions_s: tallies.Histogram = dataclasses.field(default_factory=_short)
    batch_inputs: tallies.Histogram = dataclasses.field(
        default_factory=functools.partial(tallies.Histogram, tallies.COUNTS)
    )
    commits_s: tallies.Histogram = dataclasses.field(default_factory=_short)
    commit_rows: int = 0
    commit_failures: int = 0
    purged_rows: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    dropped: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    notifications_sent: int = 0
    notifications_failed: int = 0
    inputs_dropped: int = 0
    notifications_dropped: int = 0
    placement_syncs: int = 0
    placement_failures: int = 0
    placement_conflicts: int = 0
    placement_requests: int = 0
    reconciled: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    self_tests: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    rpc: tallies.Timings = dataclasses.field(default_factory=tallies.Timings)
    group_tasks: int = 0
    group_busy_s: float = 0.0
    group_slot_s: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    group_resizes: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
