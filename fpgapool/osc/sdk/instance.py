# SPDX-License-Identifier: Apache-2.0

"""Instances of Nova that have, or had, a token of their own."""

from __future__ import annotations

from keystoneauth1 import adapter
from openstack import resource
from openstack import utils

from fpgapool.osc.sdk import base


class Instance(base.Resource):
    """An instance."""

    resources_key = "instances"
    base_path = "/instances"
    allow_list = True

    _query_mapping = base.query("project_id", "all_projects")

    project_id = resource.Body("project_id")
    #: Its compute node; only in lists of all projects.
    host_uuid = resource.Body("host_uuid")
    #: Sessions that its flavor allows at a time; None: any number.
    max_sessions = resource.Body("max_sessions", type=int)
    #: State of its token: valid or revoked.
    token = resource.Body("token")
    created_at = resource.Body("created_at")

    def revoke_token(self, session: adapter.Adapter) -> None:
        """Revoke its token, for good."""
        session.delete(
            utils.urljoin(self.base_path, self.id, "token"),
            microversion=self._get_microversion(session),
        )
