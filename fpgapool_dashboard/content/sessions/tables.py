# SPDX-License-Identifier: Apache-2.0

"""The table of sessions."""

from __future__ import annotations

from typing import Any

from django.template import defaultfilters
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy
from django.utils.translation import pgettext_lazy
from horizon import exceptions
from horizon import tables
from horizon.tables import actions

from fpgapool.vocabulary import states
from fpgapool_dashboard import api
from fpgapool_dashboard.content import lists

INDEX_URL = "horizon:project:fpga_sessions:index"
DETAIL_URL = "horizon:project:fpga_sessions:detail"

STATES = (
    (states.QUEUED, pgettext_lazy("State of a session", "Queued")),
    (states.PREPARING, pgettext_lazy("State of a session", "Preparing")),
    (states.READY, pgettext_lazy("State of a session", "Ready")),
    (states.ACTIVE, pgettext_lazy("State of a session", "Active")),
    (states.DETACHED, pgettext_lazy("State of a session", "Detached")),
    (states.CLOSED, pgettext_lazy("State of a session", "Closed")),
    (states.REJECTED, pgettext_lazy("State of a session", "Rejected")),
    (states.CANCELLED, pgettext_lazy("State of a session", "Cancelled")),
    (states.FAILED, pgettext_lazy("State of a session", "Failed")),
    (states.EXPIRED, pgettext_lazy("State of a session", "Expired")),
    (states.LOST, pgettext_lazy("State of a session", "Lost")),
)
_FAILURES = frozenset(
    {states.REJECTED, states.FAILED, states.EXPIRED, states.LOST}
)


class CloseSession(tables.DeleteAction):
    name = "close"
    policy_rules = (("fpgapool", "fpgapool:sessions:delete"),)
    help_text = _(
        "A session that waits leaves the queue, and one that runs loses its"
        " slot."
    )

    @staticmethod
    def action_present(count: int) -> Any:
        return ngettext_lazy("Close Session", "Close Sessions", count)

    @staticmethod
    def action_past(count: int) -> Any:
        return ngettext_lazy("Closed Session", "Closed Sessions", count)

    def allowed(self, request: Any, session: Any = None) -> bool:
        return session is None or session.state in states.LIVE

    @actions.handle_exception_with_detail_message(
        normal_log_message="Session %(id)s was not closed: %(exc)s",
        target_exception=lists.ERRORS,
        target_log_message="Session %(id)s was not closed: %(exc)s",
        target_user_message=_("Unable to close session %(name)s."),
    )
    def delete(self, request: Any, session_id: str) -> None:
        api.close_session(request, session_id)


def slot_of(session: Any) -> Any:
    """Return where a session's slot is; None if it has none."""
    found = session.placement
    if not found:
        return None
    return lists.place_text(found["host_name"], found["device"], found["slot"])


def user_of(session: Any, request: Any) -> str | None:
    """Return who has opened a session; None: an instance.

    The only user whose name is known is who looks at the page.
    """
    user = request.user
    known: str = user.username
    return known if session.user_id == user.id else session.user_id or None


def waits_for(session: Any) -> list[str]:
    """Return why a session waits, as sentences."""
    return [one["message"] for one in session.pending_reasons or ()]


def _waits_for_text(session: Any) -> str | None:
    return " ".join(waits_for(session)) or None


class _User(tables.Column):
    """The user who has opened a session."""

    def get_raw_data(self, session: Any) -> str | None:
        return user_of(session, self.table.request)


class SessionsTable(tables.DataTable):
    id = tables.Column("id", verbose_name=_("ID"), link=DETAIL_URL)
    state = tables.Column(
        "state",
        verbose_name=_("State"),
        status=True,
        status_choices=(
            *((one, True) for one in states.ALL - _FAILURES),
            *((one, False) for one in _FAILURES),
        ),
        display_choices=STATES,
    )
    accelerator = tables.Column("accelerator", verbose_name=_("Accelerator"))
    slot = tables.Column(slot_of, verbose_name=_("Slot"))
    instance = tables.Column("instance_id", verbose_name=_("Instance"))
    user = _User("user_id", verbose_name=_("User"))
    waiting = tables.Column(_waits_for_text, verbose_name=_("Waiting For"))
    claimed = tables.Column(
        "claimed_bytes",
        verbose_name=_("Claimed"),
        filters=(defaultfilters.filesizeformat,),
    )
    queued = tables.Column(
        "queued_at",
        verbose_name=_("Requested"),
        filters=(lists.moment,),
    )

    def get_object_by_id(self, lookup: str) -> Any:
        """Return a session, which need not be on this page of the list."""
        for session in self.data:
            if session.id == lookup:
                return session
        try:
            return api.session(self.request, lookup)
        except lists.ERRORS:
            exceptions.handle(
                self.request,
                _("Unable to retrieve the session."),
                redirect=reverse(INDEX_URL),
            )

    def get_object_display(self, session: Any) -> str:
        return str(session.id)

    class Meta:
        name = "sessions"
        verbose_name = _("Sessions")
        table_actions = (
            lists.filter_action(
                ("accelerator", _("Accelerator =")),
                ("state", _("State =")),
                ("instance_id", _("Instance ID =")),
                ("user_id", _("User ID =")),
            ),
            CloseSession,
        )
        row_actions = (CloseSession,)
