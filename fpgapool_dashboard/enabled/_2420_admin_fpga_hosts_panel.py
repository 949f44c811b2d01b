# SPDX-License-Identifier: Apache-2.0

PANEL = "fpga_hosts"
PANEL_GROUP = "fpga"
PANEL_DASHBOARD = "admin"
ADD_PANEL = "fpgapool_dashboard.content.hosts.panel.Hosts"
