# SPDX-License-Identifier: Apache-2.0

"""The list of hosts, and the form for their state."""

from django.utils.translation import gettext_lazy as _

from fpgapool_dashboard import api
from fpgapool_dashboard import paging
from fpgapool_dashboard.content import administration
from fpgapool_dashboard.content import lists
from fpgapool_dashboard.content.hosts import tables


class IndexView(lists.PagedView):
    table_class = tables.HostsTable
    page_title = _("FPGA Hosts")
    problem = _("Unable to retrieve the hosts.")

    def get_page(self, place: paging.Place) -> paging.Page:
        return api.hosts(self.request, place, **self.get_filters())


class StateView(administration.StateView):
    administer = staticmethod(api.administer_host)
    address = tables.STATE
    index = tables.INDEX
