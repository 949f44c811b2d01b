# SPDX-License-Identifier: Apache-2.0

"""The pool's hosts, devices, slots, services and instances."""

from openstack import resource

from fpgapool.osc.sdk import base
from fpgapool.vocabulary import inventory


class Pool(base.Resource):
    """The pool, of which there is only one."""

    resource_key = "pool"
    base_path = "/pool"
    allow_fetch = True
    requires_id = False

    strategy = resource.Body("strategy")
    waiting = resource.Body("waiting", type=int)
    sessions = resource.Body("sessions", type=dict)
    #: The hardware in numbers; services of release 1.0.0 lack it.
    counts = resource.Body("counts", type=dict)
    #: Only from services of release 1.0.0: hosts with their devices, each of
    #: which includes its slots.
    hosts = resource.Body("hosts", type=list, list_type=dict)


class PoolHost(base.Resource):
    """A host with its devices, each of which includes its slots."""

    resources_key = "hosts"
    base_path = "/pool/hosts"
    allow_list = True

    _query_mapping = base.query("name_part", "slot_state")

    uuid = resource.Body("uuid", alternate_id=True)
    is_up = resource.Body("up", type=bool)
    devices = resource.Body("devices", type=list, list_type=dict)


class Snapshot(base.Resource):
    """The data that Nova's scheduler uses to place instances."""

    resource_key = "snapshot"
    base_path = "/pool/snapshot"
    allow_fetch = True
    requires_id = False

    generated_at = resource.Body("generated_at")
    #: Changes whenever the rest of the snapshot changes.
    generation = resource.Body("generation")
    #: Hosts, by the UUID of their resource provider.
    hosts = resource.Body("hosts", type=dict)
    #: Number of sessions waiting for each accelerator.
    queued = resource.Body("queued", type=dict)


@base.described(inventory.HOST)
class Host(base.Resource):
    """A host; its UUID identifies it."""

    resource_key = "host"
    resources_key = "hosts"
    base_path = "/hosts"
    allow_fetch = True
    allow_list = True

    _query_mapping = base.query("name", is_up="up")

    uuid = resource.Body("uuid", alternate_id=True)


@base.described(inventory.DEVICE)
class Device(base.Resource):
    """An FPGA board of a host."""

    resource_key = "device"
    resources_key = "devices"
    base_path = "/devices"
    allow_fetch = True
    allow_list = True

    _query_mapping = base.query("state", host_uuid="host")


@base.described(inventory.SLOT)
class Slot(base.Resource):
    """A reconfigurable region of a device."""

    resource_key = "slot"
    resources_key = "slots"
    base_path = "/slots"
    allow_fetch = True
    allow_list = True

    _query_mapping = base.query(
        "accelerator", "state", host_uuid="host", device_id="device"
    )


@base.described(inventory.SERVICE)
class Service(base.Resource):
    """A conductor, an agent, or a process of the API."""

    resources_key = "services"
    base_path = "/services"
    allow_list = True

    _query_mapping = base.query("binary", is_up="up")


@base.described(inventory.INSTANCE)
class Instance(base.Resource):
    """A Nova instance that has, or had, its own token."""

    resources_key = "instances"
    base_path = "/instances"
    allow_list = True

    _query_mapping = base.query("project_id", "all_projects")
