# SPDX-License-Identifier: Apache-2.0

"""The panel for devices."""

import horizon
from django.utils.translation import gettext_lazy as _


class Devices(horizon.Panel):
    name = _("Boards")
    slug = "fpga_devices"
    permissions = ("openstack.services.fpgapool",)
    policy_rules = (("fpgapool", "fpgapool:devices:list"),)
