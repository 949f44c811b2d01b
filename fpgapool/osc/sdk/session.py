# SPDX-License-Identifier: Apache-2.0

"""Sessions, and the API's methods for them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from openstack import resource

from fpgapool.osc.sdk import base
from fpgapool.vocabulary import session as description


@base.described(description.FIELDS)
class Session(base.Resource):
    """A session.

    Its ``pending_reasons`` are objects with ``code`` and ``message``.
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
        "user_id",
        "instance_id",
        host_uuid="host",
        changes_since="changes-since",
    )

    #: The session's slot.
    placement = resource.Body("placement", type=dict)
    #: Connection data with the secret; only while the session is READY.
    connection_info = resource.Body("connection", type=dict)

    #: When to repeat the request, if the service could not wait.
    retry_after_s = resource.Header("Retry-After", type=int)


class SessionProxy(base.Proxy):
    """The part of the pool's API for sessions."""

    def sessions(self, **query: Any) -> Generator[Session, None, None]:
        """Return sessions, newest first.

        :param query: ``state``, one or several, ``accelerator``,
            ``request_id``, ``host_uuid``, ``all_projects``, ``project_id``,
            ``user_id``, ``instance_id``.
        """
        return self._list(Session, **query)

    def create_session(self, **attributes: Any) -> Session:
        """Open a session; it may not be READY yet when this returns.

        :param attributes: ``accelerator``, ``claimed_bytes`` and optionally
            ``request_id`` and options of
            :mod:`fpgapool.vocabulary.session`.
        """
        return self._create(Session, **attributes)

    def dry_run_session(self, **attributes: Any) -> dict[str, Any]:
        """Report what would happen to a session, without opening it.

        :returns: the ``state`` that it would have, ``reasons`` with ``code``
            and ``message``, and ``expected_wait_s`` with its range.
        """
        response = self.post(
            Session.base_path,
            params={"dry_run": "true"},
            json={"session": attributes},
            microversion=Session._max_microversion,
        )
        found: dict[str, Any] = response.json()["dry_run"]
        return found

    def get_session(
        self,
        session_id: str,
        wait_s: float | None = None,
        revision: int | None = None,
    ) -> Session:
        """Return a session, immediately or once it changes.

        :param wait_s: how long to wait for a change. The service limits this
            time. If too many requests are waiting, it responds at once, and
            ``retry_after_s`` says when to repeat the request.
        """
        query: dict[str, Any] = {"wait_s": wait_s, "revision": revision}
        return self._get_resource(Session, session_id).fetch(
            self, **{k: v for k, v in query.items() if v is not None}
        )

    def close_session(
        self, session: str | Session, ignore_missing: bool = True
    ) -> None:
        """Cancel a waiting session, or close a running one."""
        self._delete(Session, session, ignore_missing=ignore_missing)

    def reopen_session(
        self, session: str | Session, generation: int
    ) -> Session:
        """Request another slot for a session that has lost its slot."""
        body = {"reopen": {"generation": generation}}
        return self._act(Session, session, "POST", "reopen", json=body)

    def renew_session_secret(self, session: str | Session) -> Session:
        """Request a new secret for a READY session."""
        return self._act(Session, session, "POST", "renew-secret", json=None)
