# SPDX-License-Identifier: Apache-2.0

"""Instances of Nova that have, or had, a token of their own."""

from __future__ import annotations

from keystoneauth1 import adapter

from fpgapool.osc.sdk import base
from fpgapool.vocabulary import inventory


@base.described(inventory.INSTANCE)
class Instance(base.Resource):
    """An instance."""

    resources_key = "instances"
    base_path = "/instances"
    allow_list = True

    _query_mapping = base.query("project_id", "all_projects")

    def revoke_token(self, session: adapter.Adapter) -> None:
        """Revoke its token, for good."""
        self._send(session, "DELETE", "token")
