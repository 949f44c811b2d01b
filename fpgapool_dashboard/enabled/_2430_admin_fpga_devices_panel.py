# SPDX-License-Identifier: Apache-2.0

PANEL = "fpga_devices"
PANEL_GROUP = "fpga"
PANEL_DASHBOARD = "admin"
ADD_PANEL = "fpgapool_dashboard.content.devices.panel.Devices"
