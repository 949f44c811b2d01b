# SPDX-License-Identifier: Apache-2.0

"""The list of sessions, and each of them."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from horizon import exceptions
from horizon import tabs as horizon_tabs
from horizon.utils import memoized

from fpgapool_dashboard import api
from fpgapool_dashboard import paging
from fpgapool_dashboard.content import lists
from fpgapool_dashboard.content.sessions import tables
from fpgapool_dashboard.content.sessions import tabs


class IndexView(lists.PagedView):
    table_class = tables.SessionsTable
    page_title = _("Sessions")
    problem = _("Unable to retrieve the sessions.")

    def get_page(self, place: paging.Place) -> paging.Page:
        query = self.get_filters()
        if "state" in query:
            query["state"] = query["state"].upper()
        return api.sessions(self.request, place, **query)


class DetailView(horizon_tabs.TabView):
    tab_group_class = tabs.SessionTabs
    template_name = "horizon/common/_detail.html"
    page_title = _("Session {{ session.id }}")

    @memoized.memoized_method
    def get_data(self) -> Any:
        try:
            return api.session(self.request, str(self.kwargs["session_id"]))
        except lists.ERRORS:
            exceptions.handle(
                self.request,
                _("Unable to retrieve the session."),
                redirect=reverse(tables.INDEX_URL),
            )

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        session = self.get_data()
        table = tables.SessionsTable(self.request)
        return {
            **super().get_context_data(**kwargs),
            "session": session,
            "url": reverse(tables.INDEX_URL),
            "actions": table.render_row_actions(session),
        }

    def get_tabs(self, request: Any, **kwargs: Any) -> Any:
        return self.tab_group_class(request, session=self.get_data(), **kwargs)
