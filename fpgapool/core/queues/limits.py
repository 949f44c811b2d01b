# SPDX-License-Identifier: Apache-2.0

"""Which projects may get slots at all: their limits, priorities and turns."""

from collections import abc

from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core.queues import share_tree
from fpgapool.core.queues import users
from fpgapool.core.topology import slots

#: Number of changed projects after which all are searched again.
MAX_CHANGED = 4096


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Limits:
    """What each project may have, and the slots that it has.

    :ivar changed: the waiting projects whose place, jobs or limit may have
        changed since the set was last cleared.
    :ivar all_changed: number of times that any project may have changed,
        whether or not ``changed`` has it.
    :ivar turns: the turns of projects for which it is not NORMAL.
    :ivar serves_last: whether the projects whose turn is LAST may get slots.
    :ivar users: the users of projects that tell them apart, if any waits or
        has a slot.
    """

    def __init__(self) -> None:
        self.changed: set[str] = set()
        self.all_changed = 0
        self.turns: dict[str, model.Turn] = {}
        self.serves_last = False
        self._held_back: set[str] = set()
        self._default_limit: int | None = None
        self._limits: dict[str, int | None] = {}
        self._default_priority: int | None = 0
        self._priorities: dict[str, int | None] = {}
        self._accounts: dict[str, share_tree.Account] = {}
        self.users: dict[str, users.Users] = {}
        self._tells_users = False
        self._default_rule = model.UserRule()
        self._rules: dict[str, model.UserRule] = {}

    def all(self) -> list[share_tree.Account]:
        return list(self._accounts.values())

    def set_limits(
        self,
        default: int | None,
        of_projects: abc.Iterable[tuple[str, int | None]],
    ) -> None:
        """Set how many slots projects may have."""
        self._default_limit = default
        self._limits = dict(of_projects)
        self.all_changed += 1

    def set_priorities(
        self,
        default: int | None,
        of_projects: abc.Iterable[tuple[str, int | None]],
    ) -> None:
        """Set the highest priorities that count against other projects."""
        self._default_priority = default
        self._priorities = dict(of_projects)

    def priority_of(self, job: model.Job) -> int:
        """Return a job's priority as it counts against other projects."""
        limit = self._priorities.get(job.project, self._default_priority)
        return job.priority if limit is None else min(job.priority, limit)

    def limit_of(self, project: str) -> int | None:
        """Return how many slots a project may have; None: no limit."""
        return self._limits.get(project, self._default_limit)

    def set_turn(self, project: str, turn: model.Turn) -> None:
        """Set when a project may get slots."""
        if turn is model.Turn.NORMAL:
            self.turns.pop(project, None)
        else:
            self.turns[project] = turn
        self.all_changed += 1

    def serve_last(self, serves: bool) -> None:
        """Let the projects whose turn is LAST get slots, or not."""
        self.serves_last = serves
        self.all_changed += 1

    def is_passed(self, project: str | None) -> bool:
        """Return whether it is not a project's turn."""
        if not self.turns or project is None:
            return False
        turn = self.turns.get(project)
        return turn is not None and not (
            self.serves_last and turn is model.Turn.LAST
        )

    def is_full(self, project: str | None) -> bool:
        """Return whether a project may get no slot, because it is not its
        turn, or because it has reached its limit.
        """
        if project is None:
            return False
        if self.turns and self.is_passed(project):
            return True
        limit = self.limit_of(project)
        return limit is not None and (
            self.sessions(project) >= limit or project in self._held_back
        )

    def is_at_limit(self, job: model.Job) -> bool:
        """Return whether a job's project, or its user there, has as many
        slots as it may have.
        """
        project, limit = job.project, self.limit_of(job.project)
        if limit is not None and self.sessions(project) >= limit:
            return True
        known = self.users.get(project)
        return known is not None and known.is_at_limit(job.user)

    # -- users -----------------------------------------------------------

    def set_user_rules(
        self,
        default: model.UserRule,
        of_projects: abc.Iterable[tuple[str, model.UserRule]],
    ) -> bool:
        """Set how the users of projects share what these get.

        :returns: whether they share it in other ways than before. The caller
            then queues the waiting jobs again for which :meth:`users_of`
            differs.
        """
        rules = {
            project: rule for project, rule in of_projects if rule != default
        }
        if (default, rules) == (self._default_rule, self._rules):
            return False
        self._default_rule = default
        self._rules = rules
        self._tells_users = default.is_set or any(
            rule.is_set for rule in self._rules.values()
        )
        former, self.users = self.users, {}
        for project, known in former.items():
            if known.rule == self.user_rule(project):
                self.users[project] = known
        for project, account in self._accounts.items():
            if project not in self.users and account.holds:
                self._count_users(account)
        self.all_changed += 1
        return True

    def _count_users(self, account: share_tree.Account) -> None:
        """Count the slots of each user, if the project tells them apart."""
        known = self.users_of(account.project)
        if known is not None:
            for hold in account.holds.values():
                if hold.record is not None:
                    known.give(hold.record.job.rank, 0.0, in_turn=False)

    def user_rule(self, project: str) -> model.UserRule:
        """Return how the users of a project share what it gets."""
        return self._rules.get(project, self._default_rule)

    def users_of(self, project: str) -> users.Users | None:
        """Return the users of a project; None: it does not tell them apart."""
        if not self._tells_users:
            return None
        known = self.users.get(project)
        if known is None:
            rule = self.user_rule(project)
            if rule.is_set:
                known = self.users[project] = users.Users(rule)
        return known

    def is_user_full(self, project: str, user: str) -> bool:
        """Return whether a user of a project has reached its limit."""
        known = self.users.get(project)
        return known is not None and known.is_full(user)

    def forget_users(self, project: str) -> None:
        """Forget the users of a project if none waits or has a slot."""
        known = self.users.get(project)
        if known is not None and known.is_idle:
            del self.users[project]

    # -- slots -----------------------------------------------------------

    def hold_back(
        self, projects: set[str], users: abc.Mapping[str, set[str]]
    ) -> bool:
        """Give projects and users with limits no slots, because a set of
        theirs waits.

        :param users: the users, by project.
        :returns: whether there are others than before.
        """
        changed = projects ^ self._held_back
        self._held_back = projects
        for project, known in self.users.items():
            if known.hold_back(frozenset(users.get(project, ()))):
                changed.add(project)
        for project in changed:
            self.note_change(project)
        return bool(changed)

    def sessions(self, project: str) -> int:
        """Return the number of slots that a project has."""
        account = self._accounts.get(project)
        return 0 if account is None else len(account.holds)

    def holds_of(self, project: str) -> list[slots.Hold]:
        """Return the slots that a project has."""
        account = self._accounts.get(project)
        return [] if account is None else list(account.holds.values())

    def note_change(self, project: str) -> None:
        """Note that a project's place, jobs or limit may have changed."""
        if len(self.changed) == MAX_CHANGED:
            self.changed.clear()
            self.all_changed += 1
        self.changed.add(project)
