# SPDX-License-Identifier: Apache-2.0

"""The leader's state, in parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import TypeVar

from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions import usage
from fpgapool.conductor.decisions.assignments import desk_accounts
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.budgets import book as budget_book
from fpgapool.conductor.decisions.calendar import book as calendar_book
from fpgapool.conductor.decisions.hardware import bitstreams
from fpgapool.conductor.decisions.hardware import probation
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import expected_waits
from fpgapool.conductor.decisions.requests import first_slots
from fpgapool.conductor.decisions.requests import group_book
from fpgapool.conductor.decisions.requests import instances
from fpgapool.conductor.decisions.requests import lives
from fpgapool.conductor.decisions.requests import quotas
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.core import state as core_state
from fpgapool.core.queues import overruns
from fpgapool.db import api as db_api

_Room = TypeVar("_Room")


class Pool:
    """All parts of the leader's state.

    Queries may read all of it; rooms get only the parts that they name.

    :param own_quotas: projects' limits until they have been read from
        Keystone; None: the limits are in the database, and the defaults in the
        settings.
    """

    def __init__(
        self,
        core: core_state.PoolState,
        settings: admission.PoolLimits,
        snapshot: db_api.Snapshot,
        *,
        own_quotas: admission.Quotas | None,
        thresholds_bytes: Callable[[], Sequence[float]],
        counts: conductor_counts.Counts,
        ahead_s: float,
    ) -> None:
        last_ids = snapshot.max_ids
        self.core = core
        self.settings = settings
        self.counts = counts
        self.clock = parts.Clock(ahead_s)
        self.outages = parts.Outages()
        self.outbox = parts.Outbox()
        self.waits = expected_waits.ExpectedWaits(core)
        self.overruns = overruns.Overruns(
            settings.claim_slack, learns=settings.learn_overruns
        )
        self.link = parts.Link(core, self.clock, counts, self.waits)
        self.quotas = quotas.QuotaBook(
            settings.default_quota,
            snapshot.quotas,
            last_ids[db_api.QuotaRecord],
            own_quotas,
        )
        self.ledger = usage.Ledger(
            snapshot.usage, last_ids[db_api.UsageRecord]
        )
        self.budgets = budget_book.BudgetBook(
            settings.default_budget, self.quotas, self.ledger
        )
        self.calendar = calendar_book.Calendar(snapshot.reservations)
        self.registry = registry.Registry()
        self.catalogue = bitstreams.Catalogue(
            (), snapshot.bitstreams, last_ids[db_api.BitstreamRecord]
        )
        self.instances = instances.Directory(
            snapshot.instances, last_ids[db_api.InstanceRecord]
        )
        self.sessions = sessions.SessionBook(
            thresholds_bytes, last_ids[db_api.SessionRecord]
        )
        self.groups = group_book.GroupBook(
            snapshot.groups,
            snapshot.group_clients,
            last_ids[db_api.GroupRecord],
            last_ids[db_api.GroupClientRecord],
        )
        self.desk_accounts = desk_accounts.DeskAccounts(
            snapshot.group_desks, last_ids[db_api.GroupDeskRecord]
        )
        self.first_slots = first_slots.FirstSlotsBook(self.desk_accounts)
        self.holds = holds.Holds(core, self.outbox)
        self.traffic = holds.Traffic()
        self.lives = self.room(lives.Lives)
        self.probation = self.room(probation.Probation)
        self.probation.load(snapshot.faults)

    def room(self, kind: type[_Room], **others: Any) -> _Room:
        """Create a room with the parts that its fields name."""
        wanted = {
            field.name: getattr(self, field.name.removeprefix("_"))
            for field in dataclasses.fields(kind)  # type: ignore[arg-type]
            if field.init and field.name not in others
        }
        return kind(**wanted, **others)

    def decide(self) -> None:
        """Let the core assign slots to waiting sessions."""
        for job_id, skips in self.link.decide().items():
            # Recorded for the next leader, but not published. Jobs of groups
            # have no session.
            session = self.sessions.by_job.get(job_id)
            if session is not None:
                session.skips = skips
                self.outbox.write(session.record())

    def take_effects(self) -> effects.Effects:
        self.lives.finish_batch()
        self.outbox.write(
            *self.ledger.take(),
            *self.desk_accounts.take(),
            *self.instances.take(),
        )
        return self.outbox.take()
