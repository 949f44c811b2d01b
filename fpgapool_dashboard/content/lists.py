# SPDX-License-Identifier: Apache-2.0

"""Tables and views that all panels share."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from django.utils.translation import gettext_lazy as _
from horizon import exceptions
from horizon import tables
from horizon.utils import filters
from openstack_dashboard.utils import settings as setting_utils

from fpgapool_dashboard import errors
from fpgapool_dashboard import paging

#: What a question to the API may raise.
ERRORS = (errors.PoolError, exceptions.ServiceCatalogException)


def loaded(
    request: Any, problem: Any, ask: Callable[..., Any], *arguments: Any
) -> Any:
    """Return what the API answers; None, and a message, if it fails.

    :param problem: the beginning of the message.
    """
    try:
        return ask(request, *arguments)
    except ERRORS:
        exceptions.handle(request, problem)
        return None


class PagedView(tables.PagedTableMixin, tables.DataTableView):
    """A table whose rows come page by page."""

    #: What could not be done if the API fails.
    problem: Any = None

    def get_page(self, place: paging.Place) -> paging.Page:
        """Ask the API for a page."""
        raise NotImplementedError

    def get_data(self) -> list[Any]:
        """Return the rows of the page that is asked for."""
        marker, direction = self._get_marker()
        place = paging.Place(
            setting_utils.get_page_size(self.request),
            marker or "",
            backwards=direction == "asc",
        )
        try:
            page = self.get_page(place)
        except ERRORS:
            exceptions.handle(self.request, self.problem)
            return []
        self._has_prev_data = page.has_previous
        self._has_more_data = page.has_next
        return page.members


def filter_action(*choices: tuple[str, Any]) -> type[tables.FilterAction]:
    """Return a filter that the API applies.

    :param choices: parameters of the API's query, and what users read.
    """

    class Filter(tables.FilterAction):
        filter_type = "server"
        filter_choices = tuple((*choice, True) for choice in choices)

    return Filter


def moment(text: str | None) -> datetime.datetime | None:
    """Return a time of the API; None if there is none."""
    return filters.parse_isotime(text) or None


def place_text(host: Any, device: Any, slot: Any) -> Any:
    """Return where a slot is."""
    return _("%(host)s, board %(device)s, slot %(slot)s") % {
        "host": host,
        "device": device,
        "slot": slot,
    }
