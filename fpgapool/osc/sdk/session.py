# SPDX-License-Identifier: Apache-2.0

"""Sessions."""

from __future__ import annotations

from typing import Any
from typing import Self

from keystoneauth1 import adapter
from openstack import resource
from openstack import utils

from fpgapool.osc.sdk import base


class Session(base.Resource):
    """A session."""

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

    #: The client's name of the request.
    request_id = resource.Body("request_id")
    project_id = resource.Body("project_id")
    state = resource.Body("state")
    #: Code of why it ended; empty if it has not.
    reason = resource.Body("reason")
    message = resource.Body("message")
    accelerator = resource.Body("accelerator")
    claimed_bytes = resource.Body("claimed_bytes", type=int)
    #: The host where the client runs, if it is one of the pool's.
    host_uuid = resource.Body("host")
    #: Grows when it gets another slot.
    generation = resource.Body("generation", type=int)
    #: Grows with every change.
    revision = resource.Body("revision", type=int)
    queued_at = resource.Body("queued_at")
    ready_at = resource.Body("ready_at")
    started_at = resource.Body("started_at")
    finished_at = resource.Body("finished_at")
    updated_at = resource.Body("updated_at")
    input_bytes = resource.Body("input_bytes", type=int)
    output_bytes = resource.Body("output_bytes", type=int)

    # Not in lists.

    #: 0 is the next to be served.
    queue_position = resource.Body("queue_position", type=int)
    #: How long it will probably still wait; None if too little is known.
    expected_wait_s = resource.Body("expected_wait_s", type=float)
    #: Why it still waits: objects with ``code`` and ``message``.
    pending_reasons = resource.Body(
        "pending_reasons", type=list, list_type=dict
    )
    #: The slot that it has.
    placement = resource.Body("placement", type=dict)
    #: How to connect, with the secret; only while it is READY.
    connection_info = resource.Body("connection", type=dict)

    # Only said when it is opened.

    priority = resource.Body("priority", type=int)
    #: How long it may wait for a slot.
    wait_timeout_s = resource.Body("wait_timeout_s", type=float)
    #: How long its slot waits for the client.
    connect_timeout_s = resource.Body("connect_timeout_s", type=float)
    #: How long its slot is kept after its connection broke.
    resume_grace_s = resource.Body("resume_grace_s", type=float)

    #: When to ask again, if the service could not wait for a change.
    retry_after_s = resource.Header("Retry-After", type=int)

    def reopen(self, session: adapter.Adapter, generation: int) -> Self:
        """Have another slot given to a session that has lost its one.

        :param session: the proxy.
        :param generation: that of the slot that is lost.
        :returns: the session as it is then.
        """
        body = {"reopen": {"generation": generation}}
        return self._act(session, "reopen", body)

    def renew_secret(self, session: adapter.Adapter) -> Self:
        """Have the secret of a READY session minted anew.

        :param session: the proxy.
        :returns: the session as it is then.
        """
        return self._act(session, "renew-secret", None)

    def _act(
        self,
        session: adapter.Adapter,
        action: str,
        body: dict[str, Any] | None,
    ) -> Self:
        response = session.post(
            utils.urljoin(self.base_path, self.id, action),
            json=body,
            microversion=self._get_microversion(session),
        )
        self._translate_response(response)
        return self
