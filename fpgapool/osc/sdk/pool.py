# SPDX-License-Identifier: Apache-2.0

"""The pool's summary and snapshot."""

from __future__ import annotations

from openstack import resource

from fpgapool.osc.sdk import base


class Pool(base.Resource):
    """The pool; there is one."""

    resource_key = "pool"
    base_path = "/pool"
    allow_fetch = True
    requires_id = False

    strategy = resource.Body("strategy")
    waiting = resource.Body("waiting", type=int)
    sessions = resource.Body("sessions", type=dict)
    #: Hosts with their devices and those with their slots.
    hosts = resource.Body("hosts", type=list, list_type=dict)


class Snapshot(base.Resource):
    """The data that Nova's scheduler uses."""

    resource_key = "snapshot"
    base_path = "/pool/snapshot"
    allow_fetch = True
    requires_id = False

    generated_at = resource.Body("generated_at")
    #: Changes when other data changes.
    generation = resource.Body("generation")
    #: By the UUID of the resource provider.
    hosts = resource.Body("hosts", type=dict)
    #: Number of sessions that wait for each accelerator.
    queued = resource.Body("queued", type=dict)
