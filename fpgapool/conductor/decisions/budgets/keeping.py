# SPDX-License-Identifier: Apache-2.0

"""Keeps projects within their budgets."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from oslo_log import log as logging

from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions import usage
from fpgapool.conductor.decisions.assignments import charging
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.budgets import book
from fpgapool.conductor.decisions.budgets import rules
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import lives
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.core import events
from fpgapool.core import model
from fpgapool.objects import bounds
from fpgapool.vocabulary import budget
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)

_USED_UP = "the project has used up its budget of this {}"


@dataclasses.dataclass(eq=False, repr=False)
class Keeping(parts.Room):
    """Holds projects back that have used up their budgets.

    A project is looked at when it is charged, when its slots alone may have
    used up what was left, when it asks for something, and in each tick.
    """

    _budgets: book.BudgetBook
    _ledger: usage.Ledger
    _registry: registry.Registry
    _holds: holds.Holds
    _sessions: sessions.SessionBook
    _lives: lives.Lives
    _charging: charging.Charging
    _turns: dict[str, model.Turn] = dataclasses.field(
        default_factory=dict, init=False
    )
    _due_at: float = dataclasses.field(default=math.inf, init=False)

    def restore(self, pasts: Mapping[str, book.Past]) -> None:
        """Open the accounts of a new leader."""
        self._budgets.restore(pasts, self._clock.now)
        self.look()

    @parts.handles(inputs.SetBudget)
    def _set(self, item: inputs.SetBudget) -> None:
        project_id, book = item.project_id, self._budgets
        self._outbox.write(
            *book.set(project_id, item.budget, item.past, self._clock.now)
        )
        if project_id not in book.accounts:
            book.changed.discard(project_id)
            self._outbox.write(*book.drop_state(project_id))
            self._turn(project_id, model.Turn.NORMAL)

    # -- looking -----------------------------------------------------------

    def look(self) -> None:
        """Look at the accounts that may have been used up meanwhile."""
        book, now = self._budgets, self._clock.now
        if book.changed:
            wanted, book.changed = book.changed, set()
            for project_id in sorted(wanted):
                self._look_at(book.accounts[project_id])
        if self._due_at <= now:
            self._due_at = math.inf
            for account in list(book.accounts.values()):
                if account.due_at <= now:
                    self._look_at(account)
                self._due_at = min(self._due_at, account.due_at)

    def look_at_all(self) -> None:
        """Look at all accounts, which may have got a new period."""
        book = self._budgets
        self._due_at = math.inf
        for account in list(book.accounts.values()):
            self._look_at(account)
        book.changed.clear()

    def _look_at(self, account: book.Account) -> None:
        count = self._bring_up_to_date(account)
        state = account.state_now
        account.due_at = math.inf
        if state != budget.EXHAUSTED and count:
            account.due_at = self._clock.now + self._safe_s(account)
            self._due_at = min(self._due_at, account.due_at)
        if state != account.state:
            self._note(account, state)
        turn = model.Turn.NORMAL
        if state == budget.EXHAUSTED:
            is_last = account.budget.action == budget.IDLE_ONLY
            turn = model.Turn.LAST if is_last else model.Turn.NEVER
        self._turn(account.project_id, turn)
        if turn is model.Turn.NEVER and account.budget.action == budget.FINISH:
            self._end_waiting(account)

    def _bring_up_to_date(self, account: book.Account) -> int:
        """Begin a new period if it is time, and count what is not charged.

        :returns: the number of the project's slots.
        """
        self._budgets.account(account.project_id, self._clock.now)
        account.open, count = self._open(account.project_id)
        return count

    def _open(self, project_id: str) -> tuple[rules.Amounts, int]:
        """Return what a project's slots have used and is not charged yet, and
        the number of these slots.
        """
        accounts = self._core.view.accounts
        found, count = rules.NOTHING, 0
        for core in () if accounts is None else accounts.holds_of(project_id):
            hold = self._holds.find(core.slot_id, core.generation)
            if hold is not None:
                # A successor pays nothing before its slot's holder, of the
                # same project, has left.
                pending = self._charging.pending(hold.former or hold)
                found = found.plus(pending)
                count += 1
        return found, count

    def _safe_s(self, account: book.Account) -> float:
        """Return a time in which time alone cannot use up a budget, whatever
        slots the project gets.
        """
        for one in rules.parts(account.budget, account.carried, account.spent):
            if one.resource == "slot_s":
                return one.left / max(len(self._registry.slots), 1)
        return math.inf

    def _note(self, account: book.Account, state: str) -> None:
        """Store a new state, which makes a notification."""
        LOG.log(
            logging.INFO if state == budget.WITHIN else logging.WARNING,
            "The budget of project %s is %s",
            account.project_id,
            state,
        )
        self._outbox.write(*self._budgets.note_state(account, state))

    def _turn(self, project_id: str, turn: model.Turn) -> None:
        if self._turns.get(project_id, model.Turn.NORMAL) is turn:
            return
        self._turns[project_id] = turn
        if turn is model.Turn.NORMAL:
            del self._turns[project_id]
        self._link.tell(events.TurnChanged(project_id, turn))

    def _end_waiting(self, account: book.Account) -> None:
        """End the sessions of a project that wait for a slot."""
        project_id = account.project_id
        if not self._sessions.queued[project_id]:
            return
        waiting = [
            session
            for session in self._sessions.by_id.values()
            if session.project_id == project_id
            and session.state == states.QUEUED
        ]
        for session in waiting:
            self._lives.end(
                session,
                states.REJECTED,
                codes.BUDGET_EXHAUSTED,
                _USED_UP.format(account.budget.period),
            )
        # With one of a set, the core rejects the others.
        for session in waiting:
            self._link.tell(
                events.JobCancelled(session.job_id, codes.BUDGET_EXHAUSTED)
            )

    # -- requests ----------------------------------------------------------

    def check(self, project_id: str) -> None:
        """Check that a project may open sessions and groups.

        :raises Rejected: if its budget is used up.
        """
        account = self._account(project_id)
        if account is None:
            return
        # The core hears of it before it decides.
        self._budgets.changed.add(project_id)
        if (
            account.state_now == budget.EXHAUSTED
            and account.budget.action != budget.IDLE_ONLY
        ):
            day = rules.refills(account.budget.period, account.begin)
            raise admission.Rejected(
                codes.BUDGET_EXHAUSTED,
                f"{_USED_UP.format(account.budget.period)}; it refills on"
                f" {day} (UTC)",
            )

    def _account(self, project_id: str) -> book.Account | None:
        """Return a project's account as it is now; None: it has no budget."""
        if not self._budgets.accounts and self._budgets.default is None:
            return None
        account = self._budgets.account(project_id, self._clock.now)
        if account is not None:
            self._bring_up_to_date(account)
        return account

    # -- questions ---------------------------------------------------------

    def day_of_change(
        self, project_id: str, wanted: Mapping[str, Any] | None
    ) -> str | None:
        """Return the day on which usage counts now, as ISO 8601.

        :param wanted: the project's new budget, as
            :func:`fpgapool.vocabulary.budget.checked` returns it; None: the
            default applies.
        :returns: None if the project has that budget already.
        """
        today = self._ledger.today(self._clock.now)
        account = self._budgets.accounts.get(project_id)
        own = account.budget if account is not None and account.own else None
        if wanted is None:
            return None if own is None else today.isoformat()
        same = own is not None and own.is_as(rules.Budget.of(wanted))
        return None if same else today.isoformat()

    def document(self, project_id: str) -> dict[str, Any] | None:
        """Return a project's budget as JSON; None: it has none."""
        account = self._account(project_id)
        return None if account is None else book.document(account)

    def documents_after(self, project_id: str, most: int) -> list[Any]:
        """Return the next budgets in the order of projects."""
        later = sorted(
            one for one in self._budgets.accounts if one > project_id
        )
        found = (self.document(one) for one in later[:most])
        return bounds.fitting(one for one in found if one is not None)

    def taken_pct(
        self, project_id: str, estimate: rules.Amounts
    ) -> float | None:
        """Return the percentage of what is left that an estimate takes; None:
        the project has no budget.
        """
        account = self._account(project_id)
        if account is None:
            return None
        return rules.taken_pct(
            account.budget, account.carried, account.spent, estimate
        )

    def counts(self) -> dict[str, int]:
        """Return the numbers of budgets by state."""
        found = dict.fromkeys(budget.STATES, 0)
        for account in self._budgets.accounts.values():
            found[account.state] += 1
        return found
