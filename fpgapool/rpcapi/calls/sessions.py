# SPDX-License-Identifier: Apache-2.0

# The bodies of declared methods are empty.
# mypy: disable-error-code="empty-body"

"""Calls about sessions."""

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from fpgapool import objects
from fpgapool.rpcapi import declared


class SessionCalls(declared.Sender):
    """See :class:`fpgapool.rpcapi.conductor.ConductorAPI`."""

    @declared.sent_by("_ask")
    def reopen_session(
        self,
        project_id: str,
        *,
        session_id: str,
        generation: int,
        host_uuid: str = "",
    ) -> objects.SessionView | None:
        """Request another slot for a session that lost its own (call).

        Repeating the call has no further effect.

        :param generation: generation of the lost assignment; later ones stay.
        :returns: the session's state; None if the caller may not see it.
        """

    def cancel_session(
        self,
        project_id: str,
        *,
        session_id: str | None = None,
        request_id: str | None = None,
        reason: str,
    ) -> None:
        """Cancel a session, given its id or its request's (cast).

        :param reason: a code of :mod:`fpgapool.vocabulary.codes`.
        """
        if session_id is None and request_id is None:
            raise ValueError("session_id or request_id is required")
        self._cast(
            "cancel_session",
            project_id=project_id,
            session_id=session_id,
            request_id=request_id,
            reason=reason,
        )

    @declared.sent_by("_cast")
    def close_session(
        self,
        project_id: str,
        session_id: str,
        *,
        generation: int,
        input_bytes: int,
        output_bytes: int,
        confirmed: bool,
    ) -> None:
        """Report that a client has closed its session (cast).

        :param input_bytes: input bytes that the session's slots have
            processed, according to the client.
        """

    @declared.sent_by("_ask")
    def end_sessions(
        self, ends: Iterable[objects.SessionEnd]
    ) -> list[objects.SessionView | None]:
        """Cancel or close sessions (call); durable on return.

        Repeating the call has no further effect.

        :returns: each session afterwards; None if it is not in memory, or
            belongs to another project.
        """

    @declared.sent_by("_cast")
    def report_progress(
        self, project_id: str, session_id: str, input_bytes: int
    ) -> None:
        """Report how much input a waiting client processed itself (cast)."""

    @declared.sent_by("_cast")
    def renew_secret(self, session_id: str) -> None:
        """Request a new secret for a READY session (cast)."""

    def get_sessions(
        self, session_ids: Iterable[str]
    ) -> list[objects.SessionView]:
        """Return existing sessions, in any order, without secrets (call)."""
        views, _unknown = self.changed_sessions(dict.fromkeys(session_ids, -1))
        return views

    @declared.sent_by("_ask")
    def session_now(
        self, session_id: str, project_id: str = ""
    ) -> objects.SessionView | None:
        """Return a session's state from the leader's memory (call).

        :param project_id: if the session belongs to this project and its
            client may connect, its secret is included once the leader has it.
            Front doors get secrets from :meth:`changed_sessions` instead.
        :returns: None if it is not in memory: it ended or never existed.
        """

    @declared.sent_by("_ask")
    def stage_endpoints(
        self,
        host_uuid: str,
        project_id: str,
        session_id: str,
        generation: int,
    ) -> list[dict[str, Any]]:
        """Return where the worker of a chain's next stage listens (call).

        :param host_uuid: host of the calling agent, which has a session of
            the same project.
        :returns: ``address`` and ``port`` of each network; none if the project
            has no session in a slot there, or none with this generation.
        """

    def changed_sessions(
        self, revisions: Mapping[str, int], *, host_uuid: str = ""
    ) -> tuple[list[objects.SessionView], list[str]]:
        """Return the changed sessions, and the ids of unknown ones (call).

        A call may cover very many waiting sessions, as few of them change.

        :param revisions: the revisions that the caller knows, by session id.
        :param host_uuid: UUID of the calling front door's host; the sessions
            that were opened there include their secrets.
        """
        door = {"host_uuid": host_uuid} if host_uuid else {}
        answer = self._ask(
            "changed_sessions", revisions=dict(revisions), **door
        )
        views = map(objects.SessionView.from_primitive, answer["changed"])
        return list(views), answer["unknown"]

    @declared.sent_by("_ask")
    def submit_sessions(
        self, requests: Iterable[objects.OpenRequest]
    ) -> list[objects.SessionView]:
        """Request sessions (call).

        Repeating the call has no further effect.

        :returns: for each request, the recorded session, or a REJECTED one
            without an id, which contains the reason. If its client may
            connect, the session's secret is included.
        """

    @declared.sent_by("_ask")
    def dry_run(self, request: objects.OpenRequest) -> objects.DryRun:
        """Return what would happen to a request if it were made now (call).

        It changes nothing.

        :raises Overloaded: if there were too many dry runs recently.
        :raises DryRunUnsupported: if the pool is too large, or its strategy
            cannot be copied.
        """
