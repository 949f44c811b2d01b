# SPDX-License-Identifier: Apache-2.0

"""Payloads about groups and their clients."""

import dataclasses
from collections.abc import Callable
from typing import Any
from typing import Self

from fpgapool.objects import base
from fpgapool.objects import session
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import group as description

_OPTIONS = description.GROUP.options
_VERSION = f"1.{max(one.asked for one in _OPTIONS)}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Goal(base.Payload):
    """What a group shall reach: either a deadline or a rate.

    :param deadline_at: wall clock.
    :param actions: number of tasks; a deadline needs it.
    """

    deadline_at: float | None = None
    rate_per_s: float | None = None
    actions: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
@fields.with_members(base.asked(_OPTIONS))
class CreateGroup(base.Payload):
    """Create a group, with options of the description.

    :param project_id: of the owner.
    :param accelerator: as the project names it.
    """

    VERSION = _VERSION

    group_id: str
    project_id: str
    accelerator: str
    name: str
    size: int
    goal: Goal | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
@fields.with_members(base.asked(_OPTIONS))
class UpdateGroup(base.Payload):
    """Change options of a group; None keeps a member."""

    VERSION = _VERSION

    group_id: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class SetGoal(base.Payload):
    """Replace the goal of a group; None removes it."""

    group_id: str
    goal: Goal | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeleteGroup(base.Payload):
    """Delete a group, and revoke its clients."""

    group_id: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttachClient(base.Payload):
    """Attach a client to a group.

    :param project_id: of the client.
    :param secret_hash: SHA-256 of its secret, hexadecimal.
    """

    client_id: str
    group_id: str
    project_id: str
    user_id: str
    secret_hash: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class RevokeClient(base.Payload):
    """Revoke a client of a group."""

    group_id: str
    client_id: str


GroupChange = (
    CreateGroup
    | UpdateGroup
    | SetGoal
    | DeleteGroup
    | AttachClient
    | RevokeClient
)

#: Builds any of the changes from its form; raises ValueError.
change_from_primitive: Callable[[object], GroupChange] = base.reader_of(
    GroupChange, "a change of a group"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupMember(base.Payload):
    """A slot that a group has.

    :param phase: of its assignment.
    """

    host_uuid: str
    host_name: str
    device: str
    slot: int
    phase: str


@dataclasses.dataclass(frozen=True, kw_only=True)
@fields.with_members(base.told(description.GROUP))
class GroupView(base.Payload):
    """All that a group's owner may know about it.

    :param endpoints: where its clients connect.
    """

    VERSION = f"1.{max(one.told or 0 for one in description.GROUP.told)}"

    members: tuple[GroupMember, ...] = ()
    endpoints: tuple[session.Endpoint, ...] = ()

    @classmethod
    def of(cls, record: Any, **others: Any) -> Self:
        """Return the view of a group.

        :param record: its row.
        :param others: members that are not recorded.
        """
        return cls(**_recorded(record), **others)


_recorded = fields.copier(
    one.name for one in description.GROUP.told if one.kept
)
