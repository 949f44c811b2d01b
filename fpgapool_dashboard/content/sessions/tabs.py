# SPDX-License-Identifier: Apache-2.0

"""What is shown of a session."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _
from horizon import tabs

from fpgapool.vocabulary import session as description
from fpgapool_dashboard.content.sessions import tables


class OverviewTab(tabs.Tab):
    name = _("Overview")
    slug = "overview"
    template_name = "fpgapool_dashboard/_session.html"

    def get_context_data(self, request: Any) -> dict[str, Any]:
        session = self.tab_group.kwargs["session"]
        return {
            "session": session,
            "state": dict(tables.STATES).get(session.state, session.state),
            "user": tables.user_of(session, request),
            "slot": tables.slot_of(session),
            "reasons": tables.waits_for(session),
            "wait": description.wait_text(session),
        }


class SessionTabs(tabs.DetailTabsGroup):
    slug = "fpga_session"
    tabs = (OverviewTab,)
