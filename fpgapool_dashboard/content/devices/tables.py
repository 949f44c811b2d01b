# SPDX-License-Identifier: Apache-2.0

"""The table of FPGA boards."""

from django.utils.translation import gettext_lazy as _
from horizon import tables

from fpgapool.vocabulary import states
from fpgapool_dashboard.content import administration
from fpgapool_dashboard.content import lists

INDEX = "horizon:admin:fpga_devices:index"
STATE = "horizon:admin:fpga_devices:state"

_STATES = (
    (states.UP, _("Up")),
    (states.DOWN, _("Down")),
    (states.FAULTY, _("Faulty")),
    (states.DRAINING, _("Draining")),
    (states.DISABLED, _("Disabled")),
)
_BAD = (states.DOWN, states.FAULTY, states.DISABLED)


class DevicesTable(administration.HardwareTable):
    host_name = tables.Column("host_name", verbose_name=_("Host"))
    name = tables.Column("name", verbose_name=_("Board"))
    model = tables.Column("model", verbose_name=_("Model"))
    state = tables.Column(
        "state",
        verbose_name=_("Status"),
        status=True,
        status_choices=(
            (states.UP, True),
            *((state, False) for state in _BAD),
        ),
        display_choices=_STATES,
    )
    fault = tables.Column(
        lambda device: device.fault_reason or None, verbose_name=_("Fault")
    )

    class Meta:
        name = "devices"
        verbose_name = _("Boards")
        columns = (
            *("host_name", "name", "model", "state", "fault", "slots"),
            *("sessions", "admin_state", "admin_reason", "deadline"),
        )
        table_actions = (
            lists.filter_action(
                ("state", _("Status =")), ("host_uuid", _("Host UUID ="))
            ),
        )
        row_actions = administration.actions(
            STATE, (("fpgapool", "fpgapool:devices:change"),)
        )
