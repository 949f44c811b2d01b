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
    #: Of the compute node that it runs on; only with all projects.
    host_uuid = resource.Body("host_uuid")
    #: How many sessions its flavor allows at a time; None: any number.
    max_sessions = resource.Body("max_sessions", type=int)
    #: What its token is: valid or revoked.
    token = resource.Body("token")
    #: When it got its token.
    created_at = resource.Body("created_at")

    def revoke_token(self, session: adapter.Adapter) -> None:
        """Take its token away, for good.

        :param session: the proxy.
        """
        session.delete(
            utils.urljoin(self.base_path, self.id, "token"),
            microversion=self._get_microversion(session),
        )
