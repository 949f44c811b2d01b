# SPDX-License-Identifier: Apache-2.0

"""The table of hosts."""

from django.utils.translation import gettext_lazy as _
from horizon import tables

from fpgapool_dashboard.content import administration
from fpgapool_dashboard.content import lists

INDEX = "horizon:admin:fpga_hosts:index"
STATE = "horizon:admin:fpga_hosts:state"


class HostsTable(administration.HardwareTable):
    name = tables.Column("name", verbose_name=_("Host"))
    up = tables.Column(
        "is_up",
        verbose_name=_("Status"),
        status=True,
        filters=(lambda is_up: _("Up") if is_up else _("Down"),),
    )
    devices = tables.Column("devices", verbose_name=_("Boards"))

    class Meta:
        name = "hosts"
        verbose_name = _("Hosts")
        columns = (
            *("name", "up", "devices", "slots", "sessions", "admin_state"),
            *("admin_reason", "deadline"),
        )
        table_actions = (lists.filter_action(("name", _("Host ="))),)
        row_actions = administration.actions(
            STATE, (("fpgapool", "fpgapool:hosts:change"),)
        )
