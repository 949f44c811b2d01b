# SPDX-License-Identifier: Apache-2.0

"""Quotas of projects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from keystoneauth1 import adapter
from openstack import resource
from openstack import utils

from fpgapool.osc.sdk import base

#: The limited resources.
RESOURCES = (
    "sessions",
    "queued",
    "queued_bytes",
    "bitstream_bytes",
    "groups",
    "group_slots",
    "group_clients",
    "max_priority",
)


class Quota(base.Resource):
    """The limits of a project, and its use.

    Each resource has ``limit``, -1 for any amount, ``in_use`` and ``source``:
    ``default``, ``project`` or ``keystone``.
    """

    resource_key = "quota"
    base_path = "/quotas"
    allow_fetch = True
    allow_delete = True

    project_id = resource.Body("project_id", alternate_id=True)
    #: Sessions with a slot; further ones wait.
    sessions = resource.Body("sessions", type=dict)
    #: Requests that wait; further ones are refused.
    queued = resource.Body("queued", type=dict)
    #: Bytes that these requests claim.
    queued_bytes = resource.Body("queued_bytes", type=dict)
    bitstream_bytes = resource.Body("bitstream_bytes", type=dict)
    groups = resource.Body("groups", type=dict)
    #: Slots that its groups may grow to.
    group_slots = resource.Body("group_slots", type=dict)
    #: Clients that it has attached to groups.
    group_clients = resource.Body("group_clients", type=dict)
    #: The highest priority that counts against other projects.
    max_priority = resource.Body("max_priority", type=dict)

    def set_limits(
        self, session: adapter.Adapter, limits: Mapping[str, int | None]
    ) -> Self:
        """Limit the use of the project.

        :param limits: by resource; None resets one to the default.
        """
        response = session.put(
            utils.urljoin(self.base_path, self.id),
            json={"quota": dict(limits)},
            microversion=self._get_microversion(session),
        )
        self._translate_response(response)
        return self
