# SPDX-License-Identifier: Apache-2.0

"""Shares the pool between projects by rounds and limits.

The method is deficit round robin with explicit rounds. All projects of the
current round may get slots, in any order. A project that has used up its bytes
moves to the end of the first round in which it has bytes again. Finding this
round takes the same time for any debt.

A held slot is charged at its rate for the whole time; a job is charged at
least its claim. With a tree, what a project gets in a round depends on which
of its siblings are active.
"""

import dataclasses
import heapq
import math
import operator
from collections import abc

from fpgapool.core import native
from fpgapool.core import ordered
from fpgapool.core.queues import limits
from fpgapool.core.queues import share_tree
from fpgapool.core.queues import users as project_users
from fpgapool.core.topology import slots

DEFAULT_QUANTUM_BYTES = 4 * 2**30

#: Shortest interval at which waiting projects are charged for held slots.
CHARGE_INTERVAL_S = 1.0

#: Number of projects of a round that compete at once. With this many, most
#: slots find a job of their own host, and the search is still short.
BREADTH = 64

_KEY = operator.attrgetter("key")


@dataclasses.dataclass(frozen=True, slots=True)
class ShareOptions:
    """How projects share the pool.

    :param fair: whether projects take turns in rounds; if not, only limits
        apply.
    :param weights: weights of projects; the default is 1.
    :raises ValueError: if the quantum or a weight is not positive and finite.
    """

    fair: bool = True
    quantum_bytes: float = DEFAULT_QUANTUM_BYTES
    weights: abc.Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_positive("quantum_bytes", self.quantum_bytes)
        for project, weight in self.weights.items():
            _check_positive(f"the weight of {project!r}", weight)

    def share_bytes(self, project: str) -> float:
        """Return the bytes that a project gets in each round."""
        return self.quantum_bytes * self.weights.get(project, 1.0)


def _check_positive(what: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ValueError(f"{what} must be positive and finite, not {value}")


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Accounts(limits.Limits):
    """The projects that have jobs, slots or debts.

    :ivar round: the current round: that of the last slot given in turn.
    """

    def __init__(self, options: ShareOptions) -> None:
        super().__init__()
        self.options = options
        self.now_s = 0.0
        self.round = 0
        self._holding: dict[str, share_tree.Account] = {}
        self._places = ordered.SortedKeys()
        self._last_place = 0
        self._charged_at_s = -math.inf
        self._tree: share_tree.Tree | None = None
        # (round, project) of accounts that neither wait nor have slots.
        self._expiring: list[tuple[int, str]] = []

    def lane_of(self, project: str) -> str | None:
        """Return the project if its jobs get their own lane; else None."""
        if (
            self.options.fair
            or self.limit_of(project) is not None
            or project in self.turns
            or self.user_rule(project).is_set
        ):
            return project
        return None

    # -- shares ----------------------------------------------------------

    def set_tree(self, places: share_tree.Places) -> None:
        """Divide shares down a tree."""
        options, before = self.options, self._tree
        if not options.fair:
            return
        tree = self._tree = share_tree.Tree(
            places, options.quantum_bytes, options.weights
        )
        if before is not None:
            tree.take_over(before)
        for account in self._accounts.values():
            self._enter(account, tree)
        for account in self._accounts.values():
            if account.waits and account.node is not None:
                account.node.join(self.round)
            account.see_share(self.share_bytes(account.project))

    def share_bytes(self, project: str) -> float:
        """Return the bytes that a project gets in each round.

        With a tree, they are fewer while more of its siblings wait, have slots
        or owe.
        """
        tree = self._tree
        if tree is None:
            return self.options.share_bytes(project)
        return tree.above(project).share_below(
            tree.units(project), project in self._accounts
        )

    def path(self, project: str) -> list[share_tree.Part] | None:
        """Return a project's place in the tree, beginning with itself.

        :returns: None if there is no tree.
        """
        if self._tree is None:
            return None
        return self._tree.path(project, project in self._accounts)

    def weights(self, project: str) -> float:
        """Return the sum of the weights that divide a round: a project's own,
        and those of all others that wait or have slots.
        """
        path = self.path(project)
        if path is not None:
            return path[-1].weights
        shares_bytes = sum(
            account.share_bytes
            for account in self._accounts.values()
            if (account.waits or account.holds) and account.project != project
        )
        shares_bytes += self.share_bytes(project)
        return shares_bytes / self.options.quantum_bytes

    def _enter(
        self, account: share_tree.Account, tree: share_tree.Tree
    ) -> None:
        """Count a project among those that divide a node's share."""
        node = account.node = tree.above(account.project)
        account.units = tree.units(account.project)
        node.enter(account.units, self.round)

    # -- rounds ----------------------------------------------------------

    def waiting(self, project: str) -> share_tree.Account | None:
        """Return a project's account if it waits."""
        account = self._accounts.get(project)
        return account if account is not None and account.waits else None

    def first_from(self, cursor: ordered.Key) -> share_tree.Account | None:
        """Return the first waiting project at or after this place."""
        key = self._places.at_or_after(cursor)
        return None if key is None else self._accounts[key[-1]]

    def round_at(self, place: ordered.Key) -> int:
        """Return the round in which the project there would get a slot now."""
        round_: int = place[0]
        return max(round_, self.round)

    def is_above_share(self, project: str) -> bool:
        """Return whether a project with a slot has used up its bytes."""
        self.charge(project)
        return self.options.fair and self.has_to_wait(project)

    def has_to_wait(self, project: str) -> bool:
        """Return whether a project has used up its bytes of this round."""
        return self._accounts[project].round > self.round

    def join(self, project: str) -> None:
        """Add a project whose first job starts to wait."""
        if not self.options.fair:
            return
        account = self._account(project)
        self._charge(account)
        first = self.round
        if account.node is not None:
            first = account.node.join(first)
        if account.round <= self.round:
            # A project that leaves forfeits its unused bytes; debts stay.
            account.begin(first, self.share_bytes(project))
        self._move(account, account.round)
        account.waits = True
        self._places.add(account.key)
        self.note_change(project)

    def leave(self, project: str) -> None:
        """Remove a project whose last job stopped waiting."""
        if not self.options.fair:
            return
        account = self._accounts[project]
        account.waits = False
        if account.node is not None:
            account.node.leave()
        self._places.remove(account.key)
        self.note_change(project)
        self._forget(account)

    # -- bytes -----------------------------------------------------------

    def give(
        self,
        project: str,
        hold: slots.Hold,
        claimed_bytes: float,
        *,
        in_round: bool,
    ) -> None:
        """Give a project a slot, and charge the job's claim.

        :param claimed_bytes: the charge; 0 if the claim has already been
            charged.
        :param in_round: whether the slot is given in turn; if not, the pool's
            round does not advance.
        """
        account = self._account(project)
        account.holds[hold.slot_id] = hold
        self._holding[project] = account
        if len(account.holds) == self.limit_of(project):
            self.note_change(project)
        if self._tells_users and hold.record is not None:
            users = self.users_of(project)
            if users is not None:
                rank = hold.record.job.rank
                users.give(rank, claimed_bytes, in_turn=in_round)
                self.note_change(project)
        if not self.options.fair:
            return
        if account.round < self.round:
            self._move(account, self.round, account.place)
        if in_round and self.round < account.round:
            self.round = account.round
            self._expire()
        if account.node is not None:
            account.node.reach(self.round)
        self._take(account, claimed_bytes)

    def take_back(self, project: str, hold: slots.Hold) -> None:
        """Take a project's slot back, and charge the rest of its cost."""
        account = self._accounts[project]
        if len(account.holds) == self.limit_of(project):
            self.note_change(project)
        del account.holds[hold.slot_id]
        if not account.holds:
            del self._holding[project]
        if self.users:
            self._take_from_user(account, hold)
        elif self.options.fair:
            self._take(account, hold.charge(self.now_s))
        self._forget(account)

    def _take_from_user(
        self, account: share_tree.Account, hold: slots.Hold
    ) -> None:
        """Charge the rest of a slot's cost, and count it no longer."""
        project = account.project
        users = self.users.get(project)
        cost_bytes = self._due(users, hold)
        if users is not None and hold.record is not None:
            users.take_back(hold.record.job.user)
            self.forget_users(project)
            self.note_change(project)
        if self.options.fair:
            self._take(account, cost_bytes)

    def charge(self, project: str) -> None:
        """Charge a project for its slots up to now."""
        account = self._accounts.get(project)
        if account is not None and self.options.fair:
            self._charge(account)

    def charge_other(self, project: str, cost_bytes: float) -> None:
        """Charge a project for its part of a slot that another project holds.

        A project that neither waits nor holds a slot keeps only debts of whole
        rounds.
        """
        if self.options.fair:
            account = self._account(project)
            self._take(account, cost_bytes)
            self._forget(account)

    def charge_waiting(self) -> None:
        """Charge waiting projects and users for held slots, once per interval.

        Without fair shares between projects, only users are charged.
        """
        if not self._is_charge_due():
            return
        self._charged_at_s = self.now_s
        waiting = [
            each
            for each in self._holding.values()
            if (
                each.waits if self.options.fair else each.project in self.users
            )
        ]
        for account in sorted(waiting, key=_KEY):
            self._charge(account)

    def in_next_pass(self, project: str) -> tuple[int, float]:
        """Return a project's round in the next pass, and the bytes then left.

        It changes nothing. For a project that does not wait, it is what would
        hold if its first job began to wait now.
        """
        account = self._accounts.get(project)
        first, share_bytes = self.round, self.share_bytes(project)
        if self._tree is not None:
            first = self._tree.above(project).first_round(first)
        if account is None:
            return first, share_bytes
        due_bytes = 0.0
        if self._is_charge_due() or not account.waits:
            held = account.holds.values()
            due_bytes = sum(hold.due_bytes(self.now_s) for hold in held)
        round_, left_bytes = account.after(due_bytes, share_bytes)
        if round_ <= self.round and not account.waits:
            return first, share_bytes
        return round_, left_bytes

    def _is_charge_due(self) -> bool:
        return self.now_s - self._charged_at_s >= CHARGE_INTERVAL_S

    def _charge(self, account: share_tree.Account) -> None:
        if account.holds:
            held = account.holds.values()
            if not self.users:
                self._take(
                    account, sum(hold.charge(self.now_s) for hold in held)
                )
                return
            users = self.users.get(account.project)
            cost_bytes = sum(self._due(users, hold) for hold in held)
            if users is not None:
                self.note_change(account.project)
            if self.options.fair:
                self._take(account, cost_bytes)

    def _due(
        self, users: project_users.Users | None, hold: slots.Hold
    ) -> float:
        """Charge the user of a slot; return what is due of its project."""
        cost_bytes = hold.charge(self.now_s)
        if users is not None and hold.record is not None:
            users.charge(hold.record.job.rank, cost_bytes)
        return cost_bytes

    def _take(self, account: share_tree.Account, cost_bytes: float) -> None:
        node, share_bytes = account.node, account.share_bytes
        if node is not None:
            share_bytes = node.charge(cost_bytes)
            share_bytes *= account.units / node.active
            account.share_bytes = share_bytes
        elif cost_bytes < account.left_bytes:
            account.left_bytes -= cost_bytes
            return
        round_, account.left_bytes = account.after(cost_bytes, share_bytes)
        if round_ > account.round:
            self._move(account, round_)

    def _move(
        self,
        account: share_tree.Account,
        round_: int,
        place: int | None = None,
    ) -> None:
        """Move a project to a place of a round; None: to its end."""
        if place is None:
            self._last_place += 1
            place = self._last_place
        if account.waits:
            self._places.remove(account.key)
        account.round, account.place = round_, place
        if account.waits:
            self._places.add(account.key)
            self.note_change(account.project)

    # -- memory ----------------------------------------------------------

    def _account(self, project: str) -> share_tree.Account:
        account = self._accounts.get(project)
        if account is None:
            share_bytes = self.options.share_bytes(project)
            account = self._accounts[project] = share_tree.Account(
                project, share_bytes
            )
            if self._tree is not None:
                self._enter(account, self._tree)
                share_bytes = self.share_bytes(project)
            account.begin(self.round, share_bytes)
        return account

    def _forget(self, account: share_tree.Account) -> None:
        """Forget an account of no use, at once or when its debts are paid."""
        if account.waits or account.holds:
            return
        if account.round > self.round:
            if not account.expires:
                account.expires = True
                entry = (account.round, account.project)
                heapq.heappush(self._expiring, entry)
            return
        del self._accounts[account.project]
        if account.node is not None:
            account.node.exit(account.units)

    def _expire(self) -> None:
        """Forget the accounts whose debts are paid."""
        expiring = self._expiring
        while expiring and expiring[0][0] <= self.round:
            account = self._accounts[heapq.heappop(expiring)[1]]
            account.expires = False
            self._forget(account)
