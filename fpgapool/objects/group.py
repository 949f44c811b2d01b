# SPDX-License-Identifier: Apache-2.0

"""Payloads about groups and their clients."""

import dataclasses
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import Self

from fpgapool.objects import base
from fpgapool.objects import identity
from fpgapool.objects import session
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import group as description

_OPTIONS = description.GROUP.options
_CHANGEABLE = description.GROUP.changeable


@dataclasses.dataclass(frozen=True, kw_only=True)
class Goal(base.Payload):
    """The target of a group: either a deadline or a rate.

    :param actions: number of tasks; required with a deadline.
    """

    deadline_at: float | None = None
    rate_per_s: float | None = None
    actions: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
@fields.with_members(base.request_members(_OPTIONS))
class CreateGroup(base.Payload):
    """Create a group, with the options that its description defines.

    :param accelerator: the accelerator's name in the project.
    """

    VERSION = base.version(one.in_request for one in _OPTIONS)

    group_id: str
    project_id: str
    accelerator: str
    name: str
    size: int
    goal: Goal | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
@fields.with_members(base.request_members(_CHANGEABLE))
class UpdateGroup(base.Payload):
    """Change options of a group; those that are None stay unchanged."""

    VERSION = base.version(one.in_request for one in _CHANGEABLE)

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
    client_id: str
    group_id: str
    project_id: str
    user_id: str
    secret_hash: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class RevokeClient(base.Payload):
    group_id: str
    client_id: str
    ended: bool = False


GroupChange = (
    CreateGroup
    | UpdateGroup
    | SetGoal
    | DeleteGroup
    | AttachClient
    | RevokeClient
)

#: Builds any of the changes from its serialized form; raises ValueError.
change_from_primitive: Callable[[object], GroupChange] = base.reader_of(
    GroupChange, "a group change"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupMember(base.Payload):
    """A slot that a group holds."""

    host_uuid: str
    host_name: str
    device: str
    slot: int
    phase: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupHost(base.Payload):
    """The part of a group that is on one host.

    :param endpoints: the endpoints of its desk; empty until they have been
        reported.
    """

    host_uuid: str
    members: int
    endpoints: tuple[session.Endpoint, ...] = ()
    certificate_sha256: str | None = None

    def seen_in(self, group_id: str) -> Self:
        """Return the host as clients of a group see it.

        They compare what the API, front doors and desks say, so each of these
        says the same, to clients of any project.
        """
        return dataclasses.replace(
            self, host_uuid=identity.host_hash(self.host_uuid, group_id)
        )


def hosts_from(hosts: Iterable[GroupHost], host_uuid: str) -> list[GroupHost]:
    """Return hosts in an order that begins with one of them.

    So all hosts of a large group have clients, even if none knows all.
    """
    return sorted(
        hosts, key=lambda one: (one.host_uuid < host_uuid, one.host_uuid)
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
@fields.with_members(base.view_members(description.GROUP))
class GroupView(base.Payload):
    """Everything that a group's owner may know about it.

    :param hosts: the hosts to which its clients connect, as many as fit.
    :param hosts_total: how many there are; like ``members_total`` None if all
        are there.
    :param hosts_revision: incremented with every change of ``hosts``.
    """

    VERSION = "1.2"

    members: tuple[GroupMember, ...] = ()
    hosts: tuple[GroupHost, ...] = ()
    hosts_revision: int = 0
    hosts_total: int | None = base.added(1, None)
    members_total: int | None = base.added(1, None)

    @classmethod
    def of(cls, record: Any, **others: Any) -> Self:
        """Return the view of a group."""
        return cls(**_recorded(record), **others)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupAccess(base.Payload):
    """A client that a group's desks admit."""

    client_id: str
    project_id: str
    secret_sha256: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupOrder(base.Payload):
    """Everything that a host's agent needs to know about a group.

    The agent configures the group's desk accordingly; repeating an order has
    no further effect. An order replaces the group's orders of lower revisions.

    :param arbitration: ``fifo`` or ``time``, see :mod:`fpgapool.protocol`.
    :param clients: all clients that may use the group; others are revoked.
    """

    group_id: str
    revision: int
    project_id: str
    accelerator: str
    arbitration: str
    clear_between: str
    max_task_bytes: int
    clients: tuple[GroupAccess, ...] = ()
    hosts: tuple[GroupHost, ...] = ()
    deleted: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClientCounts(base.Payload):
    """The tasks of one client of a desk.

    :param ended: number of tasks ended since the desk started; like
        ``arrived`` and ``busy_s``, it never decreases.
    :param running: number of tasks running now, plus its locks without a task.
    :param busy_s: slot-seconds used by its tasks and locks.
    :param input_bytes: input of its tasks that have ended with a result; like
        ``output_bytes``, it never decreases, but agents of earlier releases
        do not report it.
    """

    VERSION = "1.1"

    client_id: str
    ended: int
    arrived: int
    waiting: int
    running: int
    busy_s: float
    connected: bool
    input_bytes: int = base.added(1, 0)
    output_bytes: int = base.added(1, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupReport(base.Payload):
    """The desk of a group, as reported by its agent.

    :param revision: revision of the last order that the desk follows; 0: none
        yet.
    :param desk_boot_id: identifies the desk's process; when it changes, the
        counts restart.
    """

    group_id: str
    revision: int
    desk_boot_id: str
    endpoints: tuple[session.Endpoint, ...] = ()
    certificate_sha256: str | None = None
    clients: tuple[ClientCounts, ...] = ()


_recorded = fields.copier(
    one.name for one in description.GROUP.in_view if one.in_record
)
