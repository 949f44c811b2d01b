# SPDX-License-Identifier: Apache-2.0

from django.utils.translation import gettext_lazy as _

from fpgapool_dashboard import errors

PANEL_GROUP = "fpga"
PANEL_GROUP_NAME = _("FPGA")
PANEL_GROUP_DASHBOARD = "project"
ADD_INSTALLED_APPS = ["fpgapool_dashboard"]
ADD_EXCEPTIONS = errors.BY_KIND
