# SPDX-License-Identifier: Apache-2.0

"""What a conductor has done since it was started, term after term."""

from __future__ import annotations

import collections
import dataclasses
import functools

from fpgapool.common import tallies

_short = functools.partial(tallies.Histogram, tallies.SHORT_S)
_long = functools.partial(tallies.Histogram, tallies.LONG_S)


@dataclasses.dataclass(eq=False, slots=True)
class Counts:
    """Each is changed by one thread only, so that none needs a lock.

    :ivar opened: sessions that were admitted.
    :ivar refused: requests that were not, by code.
    :ivar ended: sessions, by state and code.
    :ivar waits_s: from a session's arrival to its first slot.
    :ivar service_s: for how long slots were held.
    :ivar decisions_s: for each batch of inputs.
    :ivar batch_inputs: how many there are in a batch.
    :ivar commits_s: for each transaction that was written.
    :ivar commit_rows: that were written.
    :ivar commit_failures: transactions that were put off.
    :ivar dropped: messages to agents, by the thread that should send them.
    :ivar notifications_sent: handed to the bus.
    :ivar notifications_failed: that the bus did not take.
    :ivar inputs_dropped: of clients and agents, because too many waited.
    :ivar notifications_dropped: because too many waited.
    :ivar placement_syncs: comparisons with what Placement has.
    :ivar placement_failures: of them, and of looks at allocations.
    :ivar placement_conflicts: changes that others came before.
    :ivar placement_requests: to Placement.
    :ivar reconciled: what was not as it should be, and was mended, by kind.
    :ivar self_tests: of what is out of use, by outcome.
    :ivar rpc: what was sent to agents.
    """

    opened: int = 0
    refused: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    ended: collections.Counter[tuple[str, str]] = dataclasses.field(
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
