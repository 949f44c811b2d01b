# SPDX-License-Identifier: Apache-2.0

"""Devices: FPGA boards of hosts."""

from fpgapool.osc.sdk import base
from fpgapool.vocabulary import inventory


@base.described(inventory.DEVICE)
class Device(base.Administered):
    """A device."""

    resource_key = "device"
    resources_key = "devices"
    base_path = "/devices"
    allow_fetch = True
    allow_list = True

    _query_mapping = base.query("state", host_uuid="host")
