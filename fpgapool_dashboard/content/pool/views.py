# SPDX-License-Identifier: Apache-2.0

"""The tabs of the pool."""

from django.utils.translation import gettext_lazy as _
from horizon import tabs as horizon_tabs

from fpgapool_dashboard.content.pool import tabs


class IndexView(horizon_tabs.TabbedTableView):
    tab_group_class = tabs.PoolTabs
    template_name = "fpgapool_dashboard/tabs.html"
    page_title = _("FPGA Pool")
