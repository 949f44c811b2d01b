# SPDX-License-Identifier: Apache-2.0

"""The panel for the pool."""

import horizon
from django.utils.translation import gettext_lazy as _


class Pool(horizon.Panel):
    name = _("Pool")
    slug = "fpga_pool"
    permissions = ("openstack.services.fpgapool",)
    policy_rules = (("fpgapool", "fpgapool:pool:get"),)
