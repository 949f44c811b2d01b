# SPDX-License-Identifier: Apache-2.0

"""Budgets in a world: what operators set, and what must hold of them."""

from __future__ import annotations

import typing
from collections.abc import Callable
from collections.abc import Mapping

from fpgapool import objects
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import engine
from fpgapool.conductor.decisions import pool as pools
from fpgapool.conductor.decisions.assignments import charging
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.budgets import book
from fpgapool.conductor.decisions.budgets import keeping
from fpgapool.conductor.decisions.budgets import rules
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.db import api as db_api
from fpgapool.vocabulary import budget
from fpgapool.vocabulary import codes
from tests.world import invariants
from tests.world import kernel as kernels
from tests.world import part
from tests.world import planting

if typing.TYPE_CHECKING:
    from tests.world import run

check = invariants.check

_PLENTY = 100_000
_LITTLE = 20
#: So much of what was used may be charged wrongly.
_MOST_WRONG = 0.001
#: Seconds that differ by less are the same.
_ROUNDING_S = 1e-6


def action_for(seed: int) -> str:
    """Return what happens to projects that have used up their budgets."""
    return budget.ACTIONS[seed // 3 % len(budget.ACTIONS)]


#: What operators set: when, for which project.
_CHANGES: tuple[tuple[float, str, dict[str, object] | None], ...] = (
    (10.0, "p1", {"slot_s": 3 * _LITTLE}),
    (16.0, "p2", {"slot_s": 2 * _LITTLE, "action": budget.IDLE_ONLY}),
    (22.0, "p1", {"slot_s": 1, "bytes": 1}),
    (28.0, "p1", None),
    # So that all who wait can be served in the end.
    (40.0, "p1", {"slot_s": _PLENTY}),
    (40.0, "p2", {"slot_s": _PLENTY, "action": budget.FINISH}),
)


def begin(kernel: kernels.Kernel, insist: Callable[..., None]) -> None:
    """Have operators set budgets.

    :param insist: asks the conductor until it answers.
    """
    for at_s, project_id, new in _CHANGES:

        def ask(
            project_id: str = project_id,
            new: Mapping[str, object] | None = new,
        ) -> None:
            insist(lambda conductor: conductor.set_budget(project_id, new))

        kernel.at(at_s, ask)


def _slot_s(rows: typing.Iterable[typing.Any]) -> float:
    return sum(row.slot_s for row in rows)


class Watcher:
    """Watches the budgets of a world."""

    def __init__(
        self,
        watcher: invariants.Watcher,
        stored: Callable[[], db_api.Database],
    ) -> None:
        self._watcher = watcher
        self._stored = stored
        self._seen: dict[pools.Pool, set[int]] = {}
        #: By session and generation, and whether it was heard of late.
        self._used_s: dict[tuple[str, int, bool], float] = {}
        #: What the rows of usage must have, once these are charged.
        self._unwritten: dict[
            tuple[str, int, bool], tuple[tuple[object, ...], float]
        ] = {}
        #: The leaders' ledgers, in order.
        self._ledgers: dict[object, int] = {}

    def install(self) -> None:
        """Watch from now on, for good."""
        wrap = self._watcher.wrap
        wrap(keeping.Keeping, "restore", self._restored)
        wrap(engine.Engine, "start", self._begun)
        wrap(engine.Engine, "process", self._decided)
        wrap(engine.Engine, "tick", self._decided)
        wrap(charging.Charging, "charge", self._left)
        wrap(charging.Charging, "charge_late", self._left_late)

    # A new leader.

    def _restored(
        self, _none: None, room: keeping.Keeping, _pasts: object
    ) -> None:
        self._ledgers[room._ledger] = len(self._ledgers)
        self._forget_unwritten()
        database = self._stored()
        durable = {
            row.project_id: book.amounts(row)
            for row in database.sum_usage(keys=("project_id",), limit=100)
        }
        for project_id, account in room._budgets.accounts.items():
            wanted = durable.get(project_id, (0.0, 0.0, 0.0))
            check(
                all(
                    abs(one - other) < _ROUNDING_S
                    for one, other in zip(account.used, wanted, strict=True)
                ),
                "a new leader has forgotten what was used",
                account,
                wanted,
            )

    def _begun(
        self, _effects: object, brain: engine.Engine, _now: float
    ) -> None:
        self._seen[brain.pool] = {
            hold.generation for hold in brain.pool.holds.with_successors()
        }

    # Slots.

    def _decided(
        self, _effects: effects.Effects, brain: engine.Engine, *args: object
    ) -> None:
        pool, now = brain.pool, typing.cast(float, args[-1])
        seen = self._seen[pool]
        new = [
            hold
            for hold in pool.holds.with_successors()
            if hold.generation not in seen
        ]
        for hold in new:
            seen.add(hold.generation)
        for account in pool.budgets.accounts.values():
            self._check_account(pool, account, now, new)

    def _check_account(
        self,
        pool: pools.Pool,
        account: book.Account,
        now: float,
        new: list[holds.Hold],
    ) -> None:
        project_id = account.project_id
        rows = pool.ledger.rows_of(project_id)
        charged_s = _slot_s(row for row in rows if row.day >= account.begin)
        check(
            charged_s - _ROUNDING_S <= account.used.slot_s,
            "a budget does not know of all that was charged",
            account,
            charged_s,
        )
        limit = account.budget.limits.slot_s
        if limit is None or account.budget.action == budget.IDLE_ONLY:
            return
        got = [one for one in new if _project_of(one) == project_id]
        if not got:
            return
        open_s = sum(
            _open_s(one, now)
            for one in pool.holds.values()
            if _project_of(one) == project_id
        )
        check(
            charged_s + open_s < limit + _ROUNDING_S,
            "a project beyond its budget gets a slot",
            account,
            charged_s,
            open_s,
            got,
        )

    # What was used.

    def _left(
        self,
        _none: None,
        room: charging.Charging,
        hold: sessions.SessionHold,
        ended_at: float,
        _result: object,
    ) -> None:
        used_s = ended_at - hold.assigned_at
        key = hold.session.session_id, hold.generation, False
        self._note(room, key, used_s, hold.session)

    def _left_late(
        self,
        _none: None,
        room: charging.Charging,
        session: sessions.Session,
        result: objects.SessionResult,
    ) -> None:
        if session.started_at is None and result.started_at is not None:
            used_s = max(result.finished_at - result.started_at, 0.0)
            key = result.session_id, result.generation, True
            self._note(room, key, used_s, session)

    def _note(
        self,
        room: charging.Charging,
        key: tuple[str, int, bool],
        used_s: float,
        session: sessions.Session,
    ) -> None:
        """Note a use, unless its leader cannot write any more."""
        if self._ledgers[room._ledger] == len(self._ledgers) - 1:
            self._used_s[key] = used_s
            row = room._ledger._rows[session.project_id, session.accelerator]
            self._unwritten[key] = _row_key(row), row.slot_s

    def _forget_unwritten(self) -> None:
        """Forget what former leaders have decided and could not write."""
        rows = self._stored().sum_usage(
            keys=("project_id", "accelerator", "day"), limit=1000
        )
        written_s = {_row_key(row): row.slot_s for row in rows}
        for key, (row_key, slot_s) in self._unwritten.items():
            if written_s.get(row_key, 0.0) < slot_s - _ROUNDING_S:
                del self._used_s[key]
        self._unwritten.clear()

    def wrong(self) -> list[str]:
        """Return what is wrong when all is at rest."""
        used_s, charged_s = self.used_s(), self.charged_s()
        if abs(charged_s - used_s) <= _MOST_WRONG * used_s + _ROUNDING_S:
            return []
        return [f"{used_s:.3f} s were used, and {charged_s:.3f} s charged"]

    def used_s(self) -> float:
        """Return for how long sessions had slots."""
        return sum(self._used_s.values())

    def charged_s(self) -> float:
        """Return for how long sessions had slots, by the database."""
        rows = self._stored().sum_usage(keys=("project_id",), limit=100)
        return sum(
            row.slot_s - row.group_busy_s - row.group_idle_s for row in rows
        )


def _row_key(row: db_api.UsageRecord) -> tuple[object, ...]:
    return row.project_id, row.accelerator, row.day


def _project_of(hold: holds.Hold) -> str:
    if isinstance(hold, sessions.SessionHold):
        return hold.session.project_id
    if isinstance(hold, holds.Member):
        return hold.group.project_id
    return ""


def _open_s(hold: holds.Hold, now: float) -> float:
    if isinstance(hold, holds.Member):
        return max(now - hold.charged_at, 0.0)
    return max(now - hold.assigned_at, 0.0)


class Budgets(part.Part):
    """Projects have budgets, and use them up."""

    NAME = "budgets"
    HELP = "in which schedules projects have budgets"
    SEEDS = (5, (3,))
    #: Who waits when a budget is used up may be refused.
    EXCUSED = frozenset({codes.BUDGET_EXHAUSTED})

    @classmethod
    def options(cls, seed: int) -> dict[str, dict[str, object]]:
        return {
            "budget": {
                "slot_s": _LITTLE,
                "action": action_for(seed),
                "period": budget.MONTH,
            }
        }

    def __init__(self, world: run.World) -> None:
        self._world = world
        self._watcher = Watcher(world.watcher, world.stored)
        self._watcher.install()

    def begin(self) -> None:
        begin(self._world.kernel, self._world.pool.insist)

    def wrong(self) -> list[str]:
        return self._watcher.wrong()

    def facts(self) -> dict[str, object]:
        return {
            "used_s": self._watcher.used_s(),
            "charged_s": self._watcher.charged_s(),
        }


_bug = planting.of_part(Budgets.NAME)


@_bug("a project beyond its budget gets a slot")
def slots_in_use_cost_nothing_yet() -> None:
    charging.Charging.pending = (  # type: ignore[method-assign]
        lambda _room, _hold: rules.NOTHING
    )


@_bug("a project beyond its budget gets a slot")
def the_core_does_not_hear_of_budgets() -> None:
    keeping.Keeping._turn = (  # type: ignore[method-assign]
        lambda *_args: None
    )


@_bug("a new leader has forgotten what was used")
def budgets_begin_anew_with_a_leader() -> None:
    restore = book.BudgetBook.restore

    def forgetful(
        accounts: book.BudgetBook, pasts: typing.Any, now: float
    ) -> None:
        restore(accounts, pasts, now)
        for account in accounts.accounts.values():
            account.used = rules.NOTHING

    book.BudgetBook.restore = forgetful  # type: ignore[method-assign]


@_bug("a budget does not know of all that was charged")
def a_changed_budget_forgets_what_was_used() -> None:
    put = book.BudgetBook.set

    def forgetful(
        accounts: book.BudgetBook,
        project_id: str,
        *args: typing.Any,
    ) -> typing.Any:
        rows = put(accounts, project_id, *args)
        if project_id in accounts.accounts:
            accounts.accounts[project_id].used = rules.NOTHING
        return rows

    book.BudgetBook.set = forgetful  # type: ignore[method-assign]
