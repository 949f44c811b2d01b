# SPDX-License-Identifier: Apache-2.0

"""The pool at a glance."""

from __future__ import annotations

from openstack import resource

from fpgapool.osc.sdk import base


class Pool(base.Resource):
    """The pool; there is one."""

    resource_key = "pool"
    base_path = "/pool"
    allow_fetch = True
    requires_id = False

    #: How sessions are scheduled.
    strategy = resource.Body("strategy")
    #: How many sessions wait for a slot.
    waiting = resource.Body("waiting", type=int)
    #: How many sessions are in each state.
    sessions = resource.Body("sessions", type=dict)
    #: Hosts with their devices and those with their slots.
    hosts = resource.Body("hosts", type=list, list_type=dict)


class Snapshot(base.Resource):
    """What Nova needs to know of the pool to place instances."""

    resource_key = "snapshot"
    base_path = "/pool/snapshot"
    allow_fetch = True
    requires_id = False

    generated_at = resource.Body("generated_at")
    #: Another one if anything else is.
    generation = resource.Body("generation")
    #: By the UUID of the compute provider.
    hosts = resource.Body("hosts", type=dict)
    #: How many sessions wait for each accelerator.
    queued = resource.Body("queued", type=dict)
