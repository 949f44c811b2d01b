# SPDX-License-Identifier: Apache-2.0

"""Budgets of the projects in a run: nothing is lost, nothing charged twice.

What budgets say is compared with the rows of usage, and these with what
clients of sessions got. Seconds and joules of a slot are in the same rows as
its bytes, and no client knows them as exactly: so the bytes stand for all
three there. A desk that dies takes along what it has not reported, so bytes of
tasks are compared with the rows only.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import typing
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.vocabulary import budget
from fpgapool.vocabulary import codes
from tests.chaos import clients
from tests.functional.api import harness as api_harness
from tests.harness import cloud as clouds

#: So much of what was used may be charged wrongly.
MOST_WRONG = 0.001
#: Sums that differ by this part of them are the same: who adds in another
#: order rounds in another way.
_ROUNDING = 1e-9
#: More than a run has time for.
_PLENTY = 10**12
#: Used up after some sessions.
_LITTLE_SLOT_S = 10

#: Of all projects that have no budget of their own.
DEFAULT = {**dict.fromkeys(budget.RESOURCES, _PLENTY), "period": budget.DAY}

Document: typing.TypeAlias = Mapping[str, typing.Any]


def first(seed: int) -> dict[str, object]:
    """Return the budget of the project that most clients belong to."""
    period = budget.PERIODS[seed % len(budget.PERIODS)]
    return {**DEFAULT, "period": period}


def neighbours(seed: int, used_s: float) -> dict[str, object] | None:
    """Return the budget of the other project; None: it has the default.

    With every second seed the project has soon used it up, and is refused
    until it gets another one.

    :param used_s: how long the project has had slots in this period.
    """
    if seed % 2 == 0:
        return None
    slot_s = int(used_s) + _LITTLE_SLOT_S
    return {**first(seed), "slot_s": slot_s, "action": budget.FINISH}


@dataclasses.dataclass(frozen=True)
class Sum:
    """What was used of a unit in a period, as two say it.

    :ivar begins: the first day of the period.
    :ivar charged: by the budget.
    :ivar used: by the rows of usage.
    """

    project_id: str
    unit: str
    begins: str
    charged: float
    used: float

    @property
    def ratio(self) -> float:
        """What was charged, divided by what was used."""
        if self.used:
            return self.charged / self.used
        return math.inf if self.charged else 1.0


@dataclasses.dataclass(frozen=True)
class Look:
    """What the pool says of budgets, and before and after that of usage.

    :ivar epoch: higher by one with each conductor that began to lead.
    :ivar budgets: as the API shows them.
    :ivar before: rows of usage.
    """

    epoch: int
    budgets: Sequence[Document]
    before: Sequence[Document]
    after: Sequence[Document]

    def sums(self) -> list[Sum]:
        """Compare each project and unit.

        Members of groups are charged all the time: what a budget says is
        right if the rows said it between the two questions.
        """
        found = []
        for one, unit in itertools.product(self.budgets, budget.RESOURCES):
            charged = float(one[unit]["used"])
            least, most = (
                sum(
                    _amount(row, unit)
                    for row in rows
                    if row["project_id"] == one["project_id"]
                    and row["day"] >= one["begins"]
                )
                for rows in (self.before, self.after)
            )
            used = min(max(charged, least), most)
            found.append(
                Sum(one["project_id"], unit, one["begins"], charged, used)
            )
        return found

    @property
    def bytes(self) -> float:
        """What was charged to all projects, on all days."""
        return sum(_amount(row, "bytes") for row in self.after)


def _amount(row: Document, unit: str) -> float:
    if unit == "bytes":
        return float(row["input_bytes"] + row["output_bytes"])
    return float(row[unit] or 0.0)


# What must hold.


def wrong(look: Look) -> list[str]:
    """Find budgets that do not say what was used, or not what follows."""
    found = [
        f"a budget says something else than the usage: {one}, {one.ratio:.6f}"
        for one in look.sums()
        if abs(one.ratio - 1) > MOST_WRONG
    ]
    known = {one["project_id"] for one in look.budgets}
    found += [
        f"a project without a budget: {project_id}"
        for project_id in sorted({row["project_id"] for row in look.after})
        if project_id not in known
    ]
    return found + [
        f"a budget has a wrong state: {dict(one)}"
        for one in look.budgets
        if (one["state"] == budget.EXHAUSTED) != _is_used_up(one)
    ]


def _is_used_up(one: Document) -> bool:
    return any(
        part["used"] + part["open"] >= part["limit"] + part["carried"]
        for part in (one[unit] for unit in budget.RESOURCES)
    )


def lost(before: Look, after: Look) -> list[str]:
    """Find what was charged once and is not any more."""
    now = {(one.project_id, one.unit): one for one in after.sums()}
    found = []
    for former in before.sums():
        one = now.get((former.project_id, former.unit))
        if one is None:
            found.append(f"a budget is gone: {former}")
        elif one.begins < former.begins and former.charged:
            found.append(f"a period came again: {former}, then {one}")
        elif one.begins == former.begins and one.charged < (
            former.charged * (1 - _ROUNDING)
        ):
            found.append(f"a budget has forgotten: {former}, then {one}")
    return found


def due_bytes(outcomes: Iterable[clients.Outcome]) -> int:
    """Return what must be charged: right output, and what it was made of.

    A worker that dies takes along what it has not reported, so sessions that
    went on in other slots do not count.
    """
    return sum(one.got_bytes for one in outcomes if not one.reopens)


def unpaid(look: Look, got_bytes: int) -> list[str]:
    """Find what clients got and nobody was charged for.

    More may be charged: slots do work again, and work that nobody waits for.

    :param got_bytes: see :func:`due_bytes`.
    """
    if look.bytes >= got_bytes * (1 - MOST_WRONG) and got_bytes:
        return []
    return [
        f"{look.bytes:.0f} bytes were charged, and clients got {got_bytes}"
    ]


def refused(outcomes: Iterable[clients.Outcome]) -> list[str]:
    """Find clients that were refused though their project has plenty."""
    return [
        f"refused within its budget: {one}"
        for one in outcomes
        if one.code == codes.BUDGET_EXHAUSTED and not one.neighbour
    ]


def still_open(look: Look) -> list[str]:
    """Find what budgets count for slots when nobody has one."""
    return [
        f"a budget counts slots that nobody has: {dict(one)}"
        for one in look.budgets
        if any(one[unit]["open"] for unit in budget.RESOURCES)
    ]


# The table.


@dataclasses.dataclass
class Row:
    """All sums of a project and unit.

    :ivar charged: by the budget, when it was looked at last.
    :ivar least: ratio of what was charged to what was used.
    """

    project_id: str
    unit: str
    period: str = ""
    action: str = ""
    state: str = ""
    looks: int = 0
    charged: float = 0.0
    least: float = math.inf
    most: float = 0.0


def rows(looks: Iterable[Look]) -> list[Row]:
    """Sum up all looks, in the order of projects."""
    found: dict[tuple[str, str], Row] = {}
    for look in looks:
        shown = {one["project_id"]: one for one in look.budgets}
        for one in look.sums():
            key = one.project_id, one.unit
            row = found.setdefault(key, Row(*key))
            for name in ("period", "action", "state"):
                setattr(row, name, shown[one.project_id][name])
            row.looks += 1
            row.charged = one.charged
            row.least = min(row.least, one.ratio)
            row.most = max(row.most, one.ratio)
    return [found[key] for key in sorted(found)]


class Books:
    """The budgets of a pool, looked at again and again."""

    def __init__(
        self, cloud: clouds.Cloud, api: api_harness.Server, seed: int
    ) -> None:
        self._cloud = cloud
        self._api = api
        self._seed = seed
        self.looks: list[Look] = []

    def open(self) -> None:
        """Give the projects their first budgets."""
        self._set(clouds.PROJECT, first(self._seed))
        self.refill()

    def refill(self) -> None:
        """Give the neighbours something to use up."""
        used_s = 0.0
        if self.looks:
            (known,) = [
                one
                for one in self.looks[-1].budgets
                if one["project_id"] == clouds.OTHER_PROJECT
            ]
            used_s = known["slot_s"]["used"]
        wanted = neighbours(self._seed, used_s)
        if wanted is not None:
            self._set(clouds.OTHER_PROJECT, wanted)

    def _set(self, project_id: str, wanted: Document) -> None:
        path = f"/v1/budgets/{project_id}"
        body = {"budget": wanted}
        answer = self._api.ask("PUT", path, api_harness.ADMIN_TOKEN, body)
        assert answer.status == 200, answer

    @property
    def takeovers(self) -> int:
        """How often a conductor began to lead, from first to last look."""
        epochs = [look.epoch for look in self.looks] or [0]
        return epochs[-1] - epochs[0]

    def check(self) -> list[str]:
        """Look at the budgets while no session has a slot.

        :returns: what is wrong.
        """
        look = self._look()
        found = wrong(look)
        if self.looks:
            found += lost(self.looks[-1], look)
        self.looks.append(look)
        return found

    def check_end(self, got_bytes: int) -> list[str]:
        """Look at the budgets when nobody has a slot any more."""
        found = self.check()
        found += unpaid(self.looks[-1], got_bytes)
        return found + still_open(self.looks[-1])

    def _look(self) -> Look:
        before = self._ask("usage")
        budgets = self._ask("budgets")
        return Look(
            self._cloud.lease().epoch, budgets, before, self._ask("usage")
        )

    def _ask(self, what: str) -> Sequence[Document]:
        path = f"/v1/{what}?all_projects=true"
        answer = self._api.ask("GET", path, api_harness.ADMIN_TOKEN)
        assert answer.status == 200, answer
        assert f"{what}_links" not in answer.document, "more than a page"
        found: Sequence[Document] = answer.document[what]
        return found
