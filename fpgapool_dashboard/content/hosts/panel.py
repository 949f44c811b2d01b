# SPDX-License-Identifier: Apache-2.0

"""The panel for hosts."""

import horizon
from django.utils.translation import gettext_lazy as _


class Hosts(horizon.Panel):
    name = _("Hosts")
    slug = "fpga_hosts"
    permissions = ("openstack.services.fpgapool",)
    policy_rules = (("fpgapool", "fpgapool:hosts:list"),)
