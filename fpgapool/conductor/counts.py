# SPDX-License-Identifier: Apache-2.0

"""A conductor's counts since its start, across all its terms."""

from __future__ import annotations

import collections

from fpgapool.common.monitoring import tallies


class Counts:
    """Counts for metrics, which :mod:`.metrics` explains.

    Only one thread changes each count, so no lock is needed.
    """

    def __init__(self) -> None:
        self.opened = 0
        self.refused = collections.Counter[str]()
        self.ended = collections.Counter[tuple[str, str]]()
        self.deadlines = collections.Counter[tuple[str, str]]()
        self.taken_back = collections.Counter[tuple[str, str]]()
        self.moved_bytes = 0
        self.waits_s = tallies.Histogram(tallies.LONG_S)
        self.service_s = tallies.Histogram(tallies.LONG_S)
        self.decisions_s = tallies.Histogram(tallies.SHORT_S)
        self.batch_inputs = tallies.Histogram(tallies.COUNTS)
        self.commits_s = tallies.Histogram(tallies.SHORT_S)
        self.commit_rows = 0
        self.commit_failures = 0
        self.purged_rows = collections.Counter[str]()
        self.dropped = collections.Counter[str]()
        self.notifications_sent = 0
        self.notifications_failed = 0
        self.inputs_dropped = 0
        self.notifications_dropped = 0
        self.placement_syncs = 0
        self.placement_failures = 0
        self.placement_conflicts = 0
        self.placement_requests = 0
        self.reconciled = collections.Counter[str]()
        self.self_tests = collections.Counter[str]()
        self.rpc = tallies.Timings()
        self.group_tasks = 0
        self.group_busy_s = 0.0
        self.group_slot_s = collections.Counter[str]()
        self.group_resizes = collections.Counter[str]()
