# SPDX-License-Identifier: Apache-2.0

"""Calls about groups and their clients."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from fpgapool import objects
from fpgapool.common import exception
from fpgapool.conductor.calls import base
from fpgapool.conductor.calls import checks
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import limits
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.views import questions
from fpgapool.objects import bounds
from fpgapool.objects import group
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import shapes

# How many groups of the same name are told of; only one of them is of use.
_MOST_NAMESAKES = 2

_GROUP_IDS = shapes.list_of(shapes.text(), most=checks.MAX_IDS)


class GroupCalls(base.Calls):
    """Handles requests about groups from owners and front doors."""

    @base.call
    def change_group(self, ctxt: Any, change: Any) -> None:
        """Change a group or its clients; answers when this is durable."""
        self._change_group(checks.checked(group.change_from_primitive, change))

    def _change_group(self, change: group.GroupChange) -> None:
        try:
            self._change(inputs.ChangeGroup(change))
        except admission.Rejected as error:
            raise exception.GroupRefused(
                str(error), code=error.code
            ) from error

    @base.call
    def get_groups(self, ctxt: Any, group_ids: Any) -> list[dict[str, Any]]:
        """Return the groups that exist."""
        limits.argument(_GROUP_IDS, group_ids, "group_ids")
        views = self._ask(lambda asked: asked.groups(group_ids))
        return [view.to_primitive() for view in views]

    @base.call
    def find_groups(
        self, ctxt: Any, project_id: str, name: str
    ) -> list[dict[str, Any]]:
        """Return the groups with this name that a project may use."""
        views = self._ask(lambda asked: asked.groups_named(project_id, name))
        return [view.to_primitive() for view in views]

    @base.call
    def group_now(self, ctxt: Any, group_id: str) -> dict[str, Any] | None:
        """Return a group, with as many members and hosts as fit."""
        views = self._ask(lambda asked: asked.groups([group_id]))
        return _cut(views[0]).to_primitive() if views else None

    @base.call
    def usable_groups(
        self, ctxt: Any, project_id: str, name: str, host_uuid: str
    ) -> list[dict[str, Any]]:
        """Return groups with this name that a project may use, or some of
        them, without their members.
        """

        def ask(asked: questions.Questions) -> list[objects.GroupView]:
            views = asked.groups_named(project_id, name)[:_MOST_NAMESAKES]
            return [
                _cut(dataclasses.replace(one, members=()), host_uuid)
                for one in views
            ]

        return [view.to_primitive() for view in self._ask(ask)]

    @base.call
    def attach_client(self, ctxt: Any, client: Any) -> None:
        """Attach a client of a front door to a group."""
        self._change_group(checks.client_of_host(ctxt, client))

    @base.call
    def detach_client(
        self, ctxt: Any, project_id: str, group_id: str, client_id: str
    ) -> None:
        """End a front door's client at the request of its program."""
        if not self._ask(
            lambda asked: asked.has_client(project_id, group_id, client_id)
        ):
            raise exception.GroupRefused(
                "the project has no client with this ID in the group",
                code=codes.GROUP_CLIENT_NOT_FOUND,
            )
        self._change_group(
            objects.RevokeClient(
                group_id=group_id, client_id=client_id, ended=True
            )
        )


def _cut(view: objects.GroupView, first: str = "") -> objects.GroupView:
    """Return a group with as many members and hosts as fit.

    :param first: UUID of the host that comes first.
    """
    hosts = objects.hosts_from(view.hosts, first)
    return dataclasses.replace(
        view,
        members=view.members[: _count(view.members)],
        members_total=len(view.members),
        hosts=tuple(hosts[: _count(hosts)]),
        hosts_total=len(hosts),
    )


def _count(payloads: Iterable[objects.GroupMember | objects.GroupHost]) -> int:
    """Return how many payloads fit into an answer."""
    return len(bounds.fitting(one.to_primitive() for one in payloads))
