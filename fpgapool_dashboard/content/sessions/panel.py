# SPDX-License-Identifier: Apache-2.0

"""The panel for sessions."""

import horizon
from django.utils.translation import gettext_lazy as _


class Sessions(horizon.Panel):
    name = _("Sessions")
    slug = "fpga_sessions"
    permissions = ("openstack.services.fpgapool",)
    policy_rules = (("fpgapool", "fpgapool:sessions:list"),)
