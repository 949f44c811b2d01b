# SPDX-License-Identifier: Apache-2.0

"""Groups, their clients, and the API's methods for both."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from openstack import resource

from fpgapool.osc.sdk import base
from fpgapool.vocabulary import group as description


@base.described(description.GROUP)
class Group(base.Resource):
    """Slots with one accelerator that clients share."""

    resource_key = "group"
    resources_key = "groups"
    base_path = "/groups"
    allow_create = True
    allow_fetch = True
    allow_commit = True
    allow_delete = True
    allow_list = True
    commit_method = "PATCH"

    _query_mapping = base.query(
        "name",
        "accelerator",
        "state",
        "shared",
        "all_projects",
        "project_id",
    )

    #: The goal and the progress towards it; None if there is no goal.
    goal = resource.Body("goal", type=dict)
    #: The group's slots.
    members = resource.Body("members", type=list, list_type=dict)
    #: How many slots there are; the list may be shorter.
    members_total = resource.Body("members_total", type=int)


@base.described(description.CLIENT)
class GroupClient(base.Resource):
    """A program that is attached to a group."""

    resource_key = "client"
    resources_key = "clients"
    base_path = "/groups/%(group)s/clients"
    allow_create = True
    allow_fetch = True
    allow_delete = True
    allow_list = True

    _query_mapping = base.query()

    #: Identifier of the client's group.
    group = resource.URI("group")
    #: Hosts to connect to, with their members and endpoints.
    hosts = resource.Body("hosts", type=list, list_type=dict)
    #: Increases with every change to the hosts.
    hosts_revision = resource.Body("hosts_revision", type=int)
    #: How many hosts there are; the list may be shorter.
    hosts_total = resource.Body("hosts_total", type=int)
    #: Proves the client's identity; only in the response to attaching.
    secret = resource.Body("secret")


class GroupProxy(base.Proxy):
    """The part of the pool's API for groups."""

    def groups(self, **query: Any) -> Generator[Group, None, None]:
        """Return the groups that your own project may use.

        :param query: ``name``, ``accelerator``, ``state``, ``shared``,
            ``all_projects``, ``project_id``.
        """
        return self._list(Group, **query)

    def get_group(self, group_id: str) -> Group:
        return self._get(Group, group_id)

    def create_group(self, **attributes: Any) -> Group:
        """Create a group, which then waits in the queue for its slots.

        :param attributes: ``name``, ``accelerator``, ``size`` and optionally
            ``goal`` and other options of
            :data:`fpgapool.vocabulary.group.GROUP`.
        """
        return self._create(Group, **attributes)

    def update_group(self, group: str | Group, **attributes: Any) -> Group:
        return self._update(Group, group, **attributes)

    def delete_group(
        self, group: str | Group, ignore_missing: bool = True
    ) -> None:
        """Delete a group, and revoke its clients."""
        self._delete(Group, group, ignore_missing=ignore_missing)

    def set_group_goal(self, group: str | Group, **goal: Any) -> Group:
        """Set the goal of a group.

        :param goal: ``deadline_at`` with ``actions``, or ``rate_per_s``.
        """
        return self._act(Group, group, "PUT", "goal", json={"goal": goal})

    def delete_group_goal(self, group: str | Group) -> None:
        self._send(Group, group, "DELETE", "goal")

    def group_clients(
        self, group: str | Group, **query: Any
    ) -> Generator[GroupClient, None, None]:
        """Return the clients of a group that you may see."""
        group_id = resource.Resource._get_id(group)
        return self._list(GroupClient, group=group_id, **query)

    def get_group_client(
        self, group: str | Group, client: str | GroupClient
    ) -> GroupClient:
        group_id = resource.Resource._get_id(group)
        return self._get(GroupClient, client, group=group_id)

    def attach_group_client(self, group: str | Group) -> GroupClient:
        """Attach a client to a group; the response contains its secret."""
        group_id = resource.Resource._get_id(group)
        return self._create(GroupClient, group=group_id)

    def revoke_group_client(
        self,
        group: str | Group,
        client: str | GroupClient,
        ignore_missing: bool = True,
    ) -> None:
        self._delete(
            GroupClient,
            client,
            group=resource.Resource._get_id(group),
            ignore_missing=ignore_missing,
        )
