# SPDX-License-Identifier: Apache-2.0

"""Turns requests about groups and their clients into rows."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from fpgapool import objects
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import first_slots
from fpgapool.db import api as db_api
from fpgapool.objects import group as group_objects
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import group as description
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import states

Row = db_api.GroupRecord | db_api.GroupClientRecord
#: What a change produces.
Planned = Row | first_slots.FirstSlots

#: The options that no column has.
_FIRST_SLOTS = ("all_or_none", "placement", "wait_timeout_s")
_HASH = re.compile(r"[0-9a-f]{64}")
#: Ended groups and clients to remember, to recognize repeated requests.
_REMEMBERED = 10_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GroupContext:
    """The pool's state, on which a change may depend.

    :ivar find_accelerator: returns an accelerator's key, given its name and
        the project; raises Rejected if the project cannot use it.
    :ivar check_budget: raises Rejected if a project's budget is used up.
    :ivar check_first: raises Rejected if the pool, or its project, can never
        have a group's first slots at once.
    """

    now: float
    quota_of: Callable[[str], admission.ProjectQuota]
    find_accelerator: Callable[[str, str], str]
    is_stateless: Callable[[str], bool]
    check_budget: Callable[[str], None]
    check_first: Callable[[db_api.GroupRecord, first_slots.FirstSlots], None]


class GroupBook:
    """All groups and clients; checks changes to them.

    :ivar by_row: the groups by their row ids.
    """

    def __init__(
        self,
        groups: Iterable[db_api.GroupRecord] = (),
        clients: Iterable[db_api.GroupClientRecord] = (),
        last_id: int = 0,
        last_client_id: int = 0,
    ) -> None:
        self.groups: dict[str, db_api.GroupRecord] = {}
        self.by_row: dict[int, db_api.GroupRecord] = {}
        self._clients: dict[str, dict[str, db_api.GroupClientRecord]] = {}
        self._last_id = last_id
        self._last_client_id = last_client_id
        # Projects of ended groups and clients, by public id, oldest first.
        self._ended: dict[str, str] = {}
        self.put([*groups, *clients])

    def clients_of(self, group_id: str) -> list[db_api.GroupClientRecord]:
        return list(self._clients.get(group_id, {}).values())

    def project_of_ended(self, client_id: str) -> str | None:
        """Return the project of an ended client; None if it is forgotten."""
        return self._ended.get(client_id)

    def in_use(self, project_id: str) -> dict[str, int]:
        """Return a project's use of the limited resources."""
        own = self._of_project(project_id)
        return {
            "groups": len(own),
            "group_slots": sum(map(charge_of, own)),
            "group_clients": sum(
                one.project_id == project_id
                for clients in self._clients.values()
                for one in clients.values()
            ),
        }

    def put(self, rows: Iterable[Row]) -> None:
        """Store the rows that :meth:`planned` returned."""
        for row in rows:
            if isinstance(row, db_api.GroupRecord):
                self.groups[row.group_id] = self.by_row[row.id] = row
                if row.state == states.GROUP_DELETED:
                    self._remember_end(row.group_id, row.project_id)
                    del self.groups[row.group_id]
                    del self.by_row[row.id]
            else:
                clients = self._clients.setdefault(row.group_id, {})
                clients[row.client_id] = row
                if row.state != states.CLIENT_ATTACHED:
                    self._remember_end(row.client_id, row.project_id)
                    del clients[row.client_id]
                if not clients:
                    del self._clients[row.group_id]

    def _remember_end(self, public_id: str, project_id: str) -> None:
        self._ended[public_id] = project_id
        if len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]

    def planned(
        self, change: group_objects.GroupChange, context: GroupContext
    ) -> list[Planned]:
        """Return the rows that a change would produce, without storing them.

        The first slots of a group precede its row.

        :raises Rejected: if the change is not allowed.
        """
        try:
            return self._planned(change, context)
        except rules.RequestError as error:
            raise admission.Rejected(error.code, error.message) from error

    def _planned(
        self, change: group_objects.GroupChange, context: GroupContext
    ) -> list[Planned]:
        if isinstance(change, objects.CreateGroup):
            return self._create(change, context)
        old = self._find(change.group_id)
        if isinstance(change, objects.DeleteGroup):
            state = states.GROUP_MOVES[old.state][states.DELETE]
            ended = dataclasses.replace(
                old, state=state, updated_at=context.now
            )
            return [*map(revoked, self.clients_of(old.group_id)), ended]
        if old.state == states.GROUP_FAILED:
            raise admission.Rejected(
                codes.GROUP_FAILED,
                f"group {old.name} did not get its first slots; delete it",
            )
        match change:
            case objects.AttachClient():
                return self._attach(old, change, context)
            case objects.RevokeClient():
                client = self._client(old, change.client_id)
                if change.ended:
                    return [revoked(client, states.CLIENT_ENDED)]
                return [revoked(client)]
            case objects.SetGoal(goal=goal):
                new = dataclasses.replace(old, **_goal(goal, context.now))
            case objects.UpdateGroup():
                new = self._updated(old, change, context)
        if new == old:
            return []
        _check_goal_of(new)
        new = dataclasses.replace(new, updated_at=context.now)
        return [
            new,
            *(
                revoked(client)
                for client in self.clients_of(new.group_id)
                if not description.is_open_to(new, client.project_id)
            ),
        ]

    # -- groups ------------------------------------------------------------

    def _create(
        self, change: objects.CreateGroup, context: GroupContext
    ) -> list[Planned]:
        if change.group_id in self.groups or change.group_id in self._ended:
            # The message is a duplicate.
            return []
        options = {
            # The minimum and the maximum default to the size.
            "min_size": change.size,
            "max_size": change.size,
            **_given(change),
        }
        together = {name: options.pop(name, None) for name in _FIRST_SLOTS}
        new = db_api.GroupRecord(
            id=self._last_id + 1,
            group_id=change.group_id,
            project_id=change.project_id,
            accelerator=context.find_accelerator(
                change.accelerator, change.project_id
            ),
            state=states.GROUP_CREATING,
            created_at=context.now,
            updated_at=context.now,
            **options,
            **_goal(change.goal, context.now),
        )
        self._check(new, context)
        _check_goal_of(new)
        context.check_budget(new.project_id)
        quota = context.quota_of(new.project_id)
        used = self.in_use(new.project_id)
        admission.check_quota(
            new.project_id, "groups", quota.groups, used["groups"], 1
        )
        self._check_slots(new, 0, context)
        first = _first_slots(new, context.now, **together)
        if first is not None:
            context.check_first(new, first)
        self._last_id = new.id
        return [new] if first is None else [first, new]

    def _updated(
        self,
        old: db_api.GroupRecord,
        change: objects.UpdateGroup,
        context: GroupContext,
    ) -> db_api.GroupRecord:
        wanted = _given(change)
        if wanted.get("shared") is False:
            wanted.setdefault("projects", ())
        new = dataclasses.replace(old, **wanted)
        self._check(new, context)
        self._check_slots(new, charge_of(old), context)
        return new

    def _check(self, new: db_api.GroupRecord, context: GroupContext) -> None:
        """Check what does not depend on the group's previous state."""
        rules.check_group_sizes(new.size, new.min_size, new.max_size)
        if new.shared and not context.is_stateless(new.accelerator):
            raise admission.Rejected(
                codes.ACCELERATOR_NOT_STATELESS,
                f"{new.accelerator} is stateful; its groups cannot be shared",
            )
        if new.projects and not new.shared:
            raise admission.Rejected(
                codes.GROUP_NOT_SHARED,
                "projects can only be set for a shared group",
            )
        for one in self._of_project(new.project_id):
            if one.name == new.name and one.group_id != new.group_id:
                raise admission.Rejected(
                    codes.GROUP_NAME_TAKEN,
                    f"the project already has a group named {new.name}:"
                    f" {one.group_id}",
                )

    def _check_slots(
        self, new: db_api.GroupRecord, before: int, context: GroupContext
    ) -> None:
        more = charge_of(new) - before
        if more > 0:
            admission.check_quota(
                new.project_id,
                "slots of groups",
                context.quota_of(new.project_id).group_slots,
                self.in_use(new.project_id)["group_slots"],
                more,
            )

    def _find(self, group_id: str) -> db_api.GroupRecord:
        group = self.groups.get(group_id)
        if group is None or group.state == states.GROUP_DRAINING:
            raise _not_found(group_id)
        return group

    def _of_project(self, project_id: str) -> list[db_api.GroupRecord]:
        groups = self.groups.values()
        return [one for one in groups if one.project_id == project_id]

    # -- clients -----------------------------------------------------------

    def _attach(
        self,
        group: db_api.GroupRecord,
        change: objects.AttachClient,
        context: GroupContext,
    ) -> list[Row]:
        if not description.is_open_to(group, change.project_id):
            raise _not_found(group.group_id)
        clients = self._clients.get(group.group_id, {})
        if change.client_id in clients or change.client_id in self._ended:
            # The message is a duplicate.
            return []
        if not _HASH.fullmatch(change.secret_hash):
            raise admission.Rejected(
                codes.INVALID_REQUEST,
                "secret_hash must be a hexadecimal SHA-256 hash",
            )
        admission.check_quota(
            change.project_id,
            "clients of groups",
            context.quota_of(change.project_id).group_clients,
            self.in_use(change.project_id)["group_clients"],
            1,
        )
        self._last_client_id += 1
        return [
            db_api.GroupClientRecord(
                id=self._last_client_id,
                state=states.CLIENT_ATTACHED,
                created_at=context.now,
                **vars(change),
            )
        ]

    def _client(
        self, group: db_api.GroupRecord, client_id: str
    ) -> db_api.GroupClientRecord:
        client = self._clients.get(group.group_id, {}).get(client_id)
        if client is None:
            raise admission.Rejected(
                codes.GROUP_CLIENT_NOT_FOUND,
                f"group {group.name} has no client {client_id!r:.80}, or it"
                " was revoked",
            )
        return client


def charge_of(group: db_api.GroupRecord) -> int:
    """Return how many slots of a group count against its project's limit."""
    return description.charged_slots(group)


def _given(
    change: objects.CreateGroup | objects.UpdateGroup,
) -> Mapping[str, Any]:
    given = {k: v for k, v in vars(change).items() if v is not None}
    return description.GROUP.checked(given)


def _first_slots(
    group: db_api.GroupRecord,
    now: float,
    *,
    all_or_none: bool | None,
    placement: str | None,
    wait_timeout_s: float | None,
) -> first_slots.FirstSlots | None:
    """Return how a new group gets its first slots; None: one by one."""
    others = {"placement": placement, "wait_timeout_s": wait_timeout_s}
    rules.check_first_slots(
        group.min_size,
        all_or_none=bool(all_or_none),
        others=[name for name, given in others.items() if given is not None],
    )
    if not all_or_none:
        return None
    return first_slots.FirstSlots(
        group.group_id, placement, wait_timeout_s, now
    )


def _goal(goal: objects.Goal | None, now: float) -> Mapping[str, Any]:
    """Return the columns of a new goal."""
    if goal is None:
        wanted, kind = objects.Goal(), ""
    else:
        wanted = goal
        rules.check_goal(goal.deadline_at, goal.rate_per_s, goal.actions, now)
        is_rate = goal.deadline_at is None
        kind = description.RATE if is_rate else description.DEADLINE
    return {"goal_kind": kind, "actions_done": 0, **vars(wanted)}


def _check_goal_of(group: db_api.GroupRecord) -> None:
    if group.goal_kind and not group.elastic:
        raise admission.Rejected(
            codes.GROUP_NOT_ELASTIC, "only an elastic group can have a goal"
        )


def revoked(
    client: db_api.GroupClientRecord, state: str = states.CLIENT_REVOKED
) -> db_api.GroupClientRecord:
    """Return the row of a client that may no longer use its group.

    :param state: CLIENT_ENDED if its program ended it or disconnected.
    """
    return dataclasses.replace(client, state=state)


def _not_found(group_id: str) -> admission.Rejected:
    return admission.Rejected(
        codes.GROUP_NOT_FOUND, f"group {group_id!r:.80} not found"
    )
