# SPDX-License-Identifier: Apache-2.0

"""What projects have used of their budgets, according to the ledger."""

from __future__ import annotations

import dataclasses
import datetime
import operator
from collections.abc import Mapping
from typing import Any

from fpgapool.conductor.decisions import usage
from fpgapool.conductor.decisions.budgets import rules
from fpgapool.conductor.decisions.budgets import stored
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import quotas
from fpgapool.db import api as db_api
from fpgapool.vocabulary import budget


@dataclasses.dataclass(frozen=True, slots=True)
class Past:
    """What a project used on the days that are not in memory.

    :ivar today: the day on which it was read, and the first that does not
        count.
    :ivar former: the sums of the former period, by kind of period.
    :ivar current: the same of the present one.
    """

    today: datetime.date
    former: Mapping[str, rules.Amounts] = dataclasses.field(
        default_factory=dict
    )
    current: Mapping[str, rules.Amounts] = dataclasses.field(
        default_factory=dict
    )


#: Of a project of which all that counts is in memory.
_NOTHING = Past(datetime.date.min)


@dataclasses.dataclass(slots=True, kw_only=True)
class Account:
    """A project's budget in the present period.

    :ivar begin: the first day of the period.
    :ivar before: what was used in the former period.
    :ivar used: what was charged in this one.
    :ivar open: what the project's slots had used in addition when the account
        was last looked at.
    :ivar state: the state of which operators know.
    :ivar due_at: the account need not be looked at before this time, unless
        more is charged.
    """

    project_id: str
    budget: rules.Budget
    own: bool
    begin: datetime.date
    before: rules.Amounts = rules.NOTHING
    used: rules.Amounts = rules.NOTHING
    open: rules.Amounts = rules.NOTHING
    state: str = budget.WITHIN
    due_at: float = 0.0

    @property
    def carried(self) -> rules.Amounts:
        """What was left of the former period."""
        return rules.carried(self.budget, self.begin, self.before)

    @property
    def spent(self) -> rules.Amounts:
        """What was used, including what is not charged yet."""
        return self.used.plus(self.open)

    @property
    def state_now(self) -> str:
        """How much of the budget is used."""
        return rules.state(self.budget, self.carried, self.spent)

    def roll(self, today: datetime.date) -> None:
        """Begin a new period if the present one has passed."""
        begin = rules.begins(self.budget.period, today)
        if begin <= self.begin:
            return
        followed = rules.refills(self.budget.period, self.begin) == begin
        self.before = self.used if followed else rules.NOTHING
        self.used = rules.NOTHING
        self.begin = begin


class BudgetBook:
    """The budgets of all projects.

    :param default: the budget of projects without their own; None: they have
        none.
    :ivar accounts: the accounts of projects with a budget.
    :ivar changed: the projects of which more was charged since the last look.
    """

    def __init__(
        self,
        default: rules.Budget | None,
        rows: quotas.QuotaBook,
        ledger: usage.Ledger,
    ) -> None:
        self.default = default
        self._rows = rows
        self._ledger = ledger
        self.accounts: dict[str, Account] = {}
        self.changed: set[str] = set()

    def restore(self, pasts: Mapping[str, Past], now: float) -> None:
        """Open the accounts of all projects that have a budget.

        :param pasts: what was used before the days in memory; may have further
            projects.
        """
        self._ledger.today(now)
        values = self._rows.stored()
        found = {
            project_id: own
            for project_id, rows in values.items()
            if (own := stored.read(rows)) is not None
        }
        known = set(found)
        if self.default is not None:
            known.update(pasts, self._ledger.projects())
        for project_id in sorted(known):
            self._open(
                project_id,
                found.get(project_id),
                pasts.get(project_id, _NOTHING),
                stored.read_state(
                    values.get(project_id, {}).get(stored.STATE)
                ),
            )
        self._listen()

    def set(
        self, project_id: str, new: rules.Budget | None, past: Past, now: float
    ) -> list[db_api.QuotaRecord]:
        """Set a project's own budget; None: the default applies.

        :returns: the rows to write.
        """
        today = self._ledger.today(now)
        known = self.accounts.pop(project_id, None)
        if new is not None:
            before = known.budget if known is not None and known.own else None
            new = new.set_on(today, before)
        state = budget.WITHIN if known is None else known.state
        self._open(project_id, new, past, state)
        self._listen()
        return self._rows.set(project_id, stored.values(new))

    def note_state(
        self, account: Account, state: str
    ) -> list[db_api.QuotaRecord]:
        """Store the state of an account; return the rows to write."""
        account.state = state
        return self._rows.set(account.project_id, stored.state_value(state))

    def drop_state(self, project_id: str) -> list[db_api.QuotaRecord]:
        """Store that a project has no budget any more."""
        return self._rows.set(project_id, stored.state_value(budget.WITHIN))

    def account(self, project_id: str, now: float) -> Account | None:
        """Return a project's account in the present period; None: it has no
        budget.
        """
        account = self.accounts.get(project_id)
        if account is not None:
            account.roll(self._ledger.today(now))
        elif self.default is not None:
            self._open_new(project_id)
            account = self.accounts[project_id]
        return account

    def _open(
        self,
        project_id: str,
        own: rules.Budget | None,
        past: Past,
        state: str = budget.WITHIN,
    ) -> None:
        this = own or self.default
        if this is None:
            return
        begin = rules.begins(this.period, past.today)
        account = self.accounts[project_id] = Account(
            project_id=project_id,
            budget=this,
            own=own is not None,
            begin=begin,
            before=past.former.get(this.period, rules.NOTHING),
            used=past.current.get(this.period, rules.NOTHING),
            state=state,
        )
        rows = self._ledger.rows_of(project_id)
        for row in sorted(rows, key=operator.attrgetter("day")):
            if row.day < past.today:
                continue
            account.roll(row.day)
            account.used = account.used.plus(amounts(row))
        account.roll(self._ledger.day)
        self.changed.add(project_id)

    def _open_new(self, project_id: str) -> None:
        """Open the account of a project that used nothing when this leader
        began: the default applies to it.
        """
        self._open(project_id, None, _NOTHING)

    def _listen(self) -> None:
        """Hear of charges, unless no project has a budget."""
        wanted = bool(self.accounts) or self.default is not None
        self._ledger.heard = self._charged if wanted else None

    def _charged(
        self,
        project_id: str,
        old: db_api.UsageRecord,
        new: db_api.UsageRecord,
    ) -> None:
        account = self.accounts.get(project_id)
        if account is None:
            if self.default is None:
                return
            self._open_new(project_id)
            return
        account.roll(new.day)
        account.used = account.used.plus(
            rules.Amounts(
                new.slot_s - old.slot_s,
                _bytes(new) - _bytes(old),
                (new.energy_j or 0.0) - (old.energy_j or 0.0),
            )
        )
        self.changed.add(project_id)


def _bytes(row: db_api.UsageRecord | db_api.UsageSum) -> int:
    return row.input_bytes + row.output_bytes


def amounts(row: db_api.UsageRecord | db_api.UsageSum) -> rules.Amounts:
    """Return what a row of usage means for budgets."""
    return rules.Amounts(row.slot_s, _bytes(row), row.energy_j or 0.0)


def document(account: Account) -> dict[str, Any]:
    """Return a project's budget as JSON."""
    this, carried = account.budget, account.carried
    found: dict[str, Any] = dict.fromkeys(budget.RESOURCES)
    for one in rules.parts(this, carried, account.spent):
        name = one.resource
        found[name] = {
            "limit": getattr(this.limits, name),
            "carried": getattr(carried, name),
            "used": getattr(account.used, name),
            "open": getattr(account.open, name),
            "left": one.left,
        }
    return {
        "project_id": account.project_id,
        "source": (
            admission.FROM_PROJECT if account.own else admission.FROM_DEFAULT
        ),
        "period": this.period,
        "action": this.action,
        "carry_over": this.carry_over,
        "state": account.state_now,
        "begins": account.begin.isoformat(),
        "refills": rules.refills(this.period, account.begin).isoformat(),
        **found,
    }
