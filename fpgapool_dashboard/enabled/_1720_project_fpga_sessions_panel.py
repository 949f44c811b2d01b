# SPDX-License-Identifier: Apache-2.0

PANEL = "fpga_sessions"
PANEL_GROUP = "fpga"
PANEL_DASHBOARD = "project"
ADD_PANEL = "fpgapool_dashboard.content.sessions.panel.Sessions"
