# SPDX-License-Identifier: Apache-2.0

"""The tabs of the pool, each with a table."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from django.utils.translation import gettext_lazy as _
from horizon import tabs

from fpgapool_dashboard import api
from fpgapool_dashboard.content import lists
from fpgapool_dashboard.content.pool import tables

_USAGE_DAYS = 30


class _Tab(tabs.TableTab):
    template_name = "horizon/common/_detail_table.html"
    # The API is asked for what is looked at.
    preload = False

    def _rows(
        self, problem: Any, ask: Callable[..., Any], *arguments: Any
    ) -> list[Any]:
        return lists.loaded(self.request, problem, ask, *arguments) or []


class AcceleratorsTab(_Tab):
    name = _("Accelerators")
    slug = "accelerators"
    table_classes = (tables.AcceleratorsTable,)

    def get_accelerators_data(self) -> list[Any]:
        problem = _("Unable to retrieve the accelerators.")
        return self._rows(problem, api.accelerators)


class SlotsTab(_Tab):
    name = _("Slots")
    slug = "slots"
    table_classes = (tables.SlotsTable,)

    def get_slots_data(self) -> list[Any]:
        return self._rows(_("Unable to retrieve the slots."), api.slots)


class LimitsTab(_Tab):
    name = _("Quota")
    slug = "limits"
    table_classes = (tables.LimitsTable,)

    def get_limits_data(self) -> list[Any]:
        return self._rows(_("Unable to retrieve the quota."), api.limits)


class UsageTab(_Tab):
    name = _("Usage of 30 Days")
    slug = "usage"
    table_classes = (tables.UsageTable,)

    def get_usage_data(self) -> list[Any]:
        today = datetime.datetime.now(tz=datetime.UTC).date()
        first = today - datetime.timedelta(days=_USAGE_DAYS - 1)
        problem = _("Unable to retrieve the usage.")
        return self._rows(problem, api.usage, first.isoformat())


class PoolTabs(tabs.TabGroup):
    slug = "fpga_pool"
    tabs = (AcceleratorsTab, SlotsTab, LimitsTab, UsageTab)
    show_single_tab = True
