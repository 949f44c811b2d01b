# SPDX-License-Identifier: Apache-2.0

PANEL = "fpga_pool"
PANEL_GROUP = "fpga"
PANEL_DASHBOARD = "project"
ADD_PANEL = "fpgapool_dashboard.content.pool.panel.Pool"
