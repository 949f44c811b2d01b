# SPDX-License-Identifier: Apache-2.0

"""What a project may use of the pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from keystoneauth1 import adapter
from openstack import resource
from openstack import utils

from fpgapool.osc.sdk import base

#: What can be limited.
RESOURCES = ("sessions", "queued", "queued_bytes", "bitstream_bytes")


class Quota(base.Resource):
    """What a project may use, and uses.

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
    #: What those claim.
    queued_bytes = resource.Body("queued_bytes", type=dict)
    #: What the project's bitstreams have.
    bitstream_bytes = resource.Body("bitstream_bytes", type=dict)

    def set_limits(
        self, session: adapter.Adapter, limits: Mapping[str, int | None]
    ) -> Self:
        """Limit what the project may use.

        :param session: the proxy.
        :param limits: by resource; None is back to the default.
        :returns: the quota as it is then.
        """
        response = session.put(
            utils.urljoin(self.base_path, self.id),
            json={"quota": dict(limits)},
            microversion=self._get_microversion(session),
        )
        self._translate_response(response)
        return self
