# SPDX-License-Identifier: Apache-2.0

"""Devices: FPGA boards of hosts."""

from __future__ import annotations

from openstack import resource

from fpgapool.osc.sdk import base


class Device(base.Administered):
    """A device."""

    resource_key = "device"
    resources_key = "devices"
    base_path = "/devices"
    allow_fetch = True
    allow_list = True

    _query_mapping = base.query("state", host_uuid="host")

    name = resource.Body("name")
    host_uuid = resource.Body("host_uuid")
    host_name = resource.Body("host_name")
    model = resource.Body("model")
    #: Rate that all its slots share.
    dma_bytes_per_s = resource.Body("dma_bytes_per_s", type=float)
    #: ``up``, ``down``, ``faulty``, ``draining`` or ``disabled``.
    state = resource.Body("state")
    fault_reason = resource.Body("fault_reason")
    #: Failures in a row that made it faulty, and self-tests since.
    failures = resource.Body("failures", type=int)
    self_tests = resource.Body("self_tests", type=int)
    last_self_test = resource.Body("last_self_test")
    next_self_test_at = resource.Body("next_self_test_at")
    slots = resource.Body("slots", type=int)
    #: Numbers of slots that instances can reserve, and have reserved.
    reservable_slots = resource.Body("reservable_slots", type=int)
    reserved_slots = resource.Body("reserved_slots", type=int)
    #: Number of reservations without a usable slot.
    pending_reservations = resource.Body("pending_reservations", type=int)
