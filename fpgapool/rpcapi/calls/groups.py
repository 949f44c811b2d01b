# SPDX-License-Identifier: Apache-2.0

# The bodies of declared methods are empty.
# mypy: disable-error-code="empty-body"

"""Calls about groups."""

from collections.abc import Iterable

from fpgapool import objects
from fpgapool.objects import group
from fpgapool.rpcapi import declared


class GroupCalls(declared.Sender):
    """See :class:`fpgapool.rpcapi.conductor.ConductorAPI`."""

    @declared.sent_by("_call")
    def change_group(self, change: group.GroupChange) -> None:
        """Change a group or its clients (call); durable on return.

        A :class:`~fpgapool.objects.CreateGroup` can be repeated.
        """

    @declared.sent_by("_ask")
    def get_groups(self, group_ids: Iterable[str]) -> list[objects.GroupView]:
        """Return the groups that exist (call).

        For conductors of release 1.0.0: the answer grows with their slots.
        """

    @declared.sent_by("_ask")
    def group_now(self, group_id: str) -> objects.GroupView | None:
        """Return a group, with as many members and hosts as fit (call)."""

    @declared.sent_by("_ask")
    def find_groups(
        self, project_id: str, name: str
    ) -> list[objects.GroupView]:
        """Return the groups with this name that a project may use (call).

        For conductors of release 1.0.0: the answer grows with their slots.
        """

    @declared.sent_by("_ask")
    def usable_groups(
        self, project_id: str, name: str, *, host_uuid: str
    ) -> list[objects.GroupView]:
        """Return groups with this name that a project may use (call).

        :param host_uuid: the host that comes first among a group's hosts.
        :returns: at most two, without members, and with as many hosts as fit.
        """

    @declared.sent_by("_call")
    def attach_client(self, client: group.AttachClient) -> None:
        """Attach a host's client to a group (call); durable on return."""

    @declared.sent_by("_call")
    def detach_client(
        self, project_id: str, *, group_id: str, client_id: str
    ) -> None:
        """End a project's client for a front door (call); durable on return.

        :raises GroupRefused: if the project has no such client in the group.
        """
