# SPDX-License-Identifier: Apache-2.0

# The bodies of declared methods are empty.
# mypy: disable-error-code="empty-body"

"""Calls about what projects may have."""

from collections.abc import Mapping
from typing import Any

from fpgapool.rpcapi import declared


class ProjectCalls(declared.Sender):
    """See :class:`fpgapool.rpcapi.conductor.ConductorAPI`."""

    @declared.sent_by("_ask")
    def get_quota(
        self, project_id: str | None = None
    ) -> dict[str, dict[str, Any]]:
        """Return a project's effective limits (call).

        :param project_id: None: return the default limits.
        """

    @declared.sent_by("_ask")
    def get_share(
        self, project_id: str, *, session_id: str = ""
    ) -> dict[str, Any]:
        """Return a project's share (call).

        :param session_id: the session of the project of which to say what is
            before it; empty: none.
        :returns: the members of
            :data:`fpgapool.vocabulary.accounting.SHARE` that do not begin with
            ``used``.
        """

    @declared.sent_by("_call")
    def set_quota(
        self, project_id: str, limits: Mapping[str, int | None]
    ) -> None:
        """Set a project's limits (call); returns once they are durable.

        :param limits: new limits by resource; None restores the default.
        """

    @declared.sent_by("_ask")
    def get_budget(self, project_id: str) -> dict[str, Any] | None:
        """Return a project's budget and what is left of it (call).

        :returns: the members of
            :data:`fpgapool.vocabulary.budget.FIELDS`; None: it has none.
        """

    @declared.sent_by("_ask")
    def budgets_after(self, project_id: str) -> list[dict[str, Any]]:
        """Return the budgets that follow a project's, a page of them (call).

        :returns: in order of the projects; empty if there are no more.
        """

    @declared.sent_by("_call")
    def set_budget(
        self, project_id: str, budget: Mapping[str, Any] | None
    ) -> None:
        """Set a project's budget (call); durable on return.

        :param budget: see :func:`fpgapool.vocabulary.budget.checked`; None:
            the default applies.
        """

    @declared.sent_by("_call")
    def set_reservation(
        self,
        reservation_id: str,
        wanted: Mapping[str, Any] | None,
        *,
        project_id: str = "",
        user_id: str = "",
        exempt: bool = False,
    ) -> None:
        """Create, change or delete a reservation (call); durable on return.

        :param wanted: members of
            :data:`fpgapool.vocabulary.reservation.MEMBERS`; of a change only
            what changes. None: delete it.
        :param project_id: the owner of a new reservation; empty: it must
            exist.
        :param exempt: whether the project's quota does not limit it.
        """
