# SPDX-License-Identifier: Apache-2.0

"""Sessions."""

from __future__ import annotations

from typing import Self

from keystoneauth1 import adapter
from openstack import resource

from fpgapool.osc.sdk import base
from fpgapool.vocabulary import session as description


@base.described(description.FIELDS)
class Session(base.Resource):
    """A session; its fields are those of the description.

    The reasons for which it waits are objects with ``code`` and ``message``.
    """

    resource_key = "session"
    resources_key = "sessions"
    base_path = "/sessions"
    allow_create = True
    allow_fetch = True
    allow_delete = True
    allow_list = True

    _query_mapping = base.query(
        "state",
        "accelerator",
        "request_id",
        "all_projects",
        "project_id",
        host_uuid="host",
        changes_since="changes-since",
    )

    #: The slot that it has.
    placement = resource.Body("placement", type=dict)
    #: How to connect, with the secret; only while it is READY.
    connection_info = resource.Body("connection", type=dict)

    #: When to ask again, if the service could not wait for a change.
    retry_after_s = resource.Header("Retry-After", type=int)

    def reopen(self, session: adapter.Adapter, generation: int) -> Self:
        """Request another slot for a session that has lost its slot.

        :param generation: that of the lost slot.
        """
        body = {"reopen": {"generation": generation}}
        return self._act(session, "POST", "reopen", json=body)

    def renew_secret(self, session: adapter.Adapter) -> Self:
        """Request a new secret for a READY session."""
        return self._act(session, "POST", "renew-secret", json=None)
