# SPDX-License-Identifier: Apache-2.0

"""The list of FPGA boards, and the form for their state."""

from django.utils.translation import gettext_lazy as _

from fpgapool_dashboard import api
from fpgapool_dashboard import paging
from fpgapool_dashboard.content import administration
from fpgapool_dashboard.content import lists
from fpgapool_dashboard.content.devices import tables


class IndexView(lists.PagedView):
    table_class = tables.DevicesTable
    page_title = _("FPGA Boards")
    problem = _("Unable to retrieve the boards.")

    def get_page(self, place: paging.Place) -> paging.Page:
        return api.devices(self.request, place, **self.get_filters())


class StateView(administration.StateView):
    administer = staticmethod(api.administer_device)
    address = tables.STATE
    index = tables.INDEX
