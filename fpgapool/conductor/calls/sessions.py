# SPDX-License-Identifier: Apache-2.0

"""Calls about sessions, and agents' reports."""

from __future__ import annotations

import concurrent.futures
import secrets
import time
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from fpgapool import objects
from fpgapool.common.messaging import rpc
from fpgapool.common.monitoring import ratelimit
from fpgapool.conductor.calls import base
from fpgapool.conductor.calls import checks
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import limits
from fpgapool.conductor.decisions.views import questions
from fpgapool.objects import bounds
from fpgapool.rpcapi import conductor as conductor_rpcapi
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import shapes

LOG = ratelimit.RateLimitedLog(__name__)

_TEXT = shapes.text()
_COUNT = shapes.integer(0, rules.MAX_SIZE_BYTES)
_CANCELLATION = shapes.Members(
    {
        "project_id": _TEXT,
        "session_id": shapes.nullable(_TEXT),
        "request_id": shapes.nullable(_TEXT),
        # At most as long as the database column.
        "reason": shapes.matching("[A-Z][A-Z0-9_]{0,63}", "a code"),
    }
)
_PROGRESS = {"project_id": _TEXT, "session_id": _TEXT, "input_bytes": _COUNT}
_CLIENT_PROGRESS = shapes.Members(_PROGRESS)
_CLOSE = shapes.Members(
    {
        **_PROGRESS,
        "generation": _COUNT,
        "output_bytes": _COUNT,
        "confirmed": shapes.flag,
    }
)

_Awaited = inputs.Open | inputs.Reopen | inputs.Cancel | inputs.Close


def _end(wanted: objects.SessionEnd) -> inputs.Cancel | inputs.Close:
    """Return the input for an end that a client of the API wants."""
    future: effects.ViewFuture = concurrent.futures.Future()
    if not wanted.generation:
        return inputs.Cancel(
            wanted.project_id,
            wanted.session_id,
            None,
            codes.CANCELLED_BY_CLIENT,
            future=future,
        )
    return inputs.Close(
        **{**vars(wanted), "confirmed": False, "future": future}
    )


def _secret_for(request: objects.OpenRequest) -> str:
    """Return a new secret; an empty one if the client has its own."""
    has_own = bool(request.secret_sha256)
    return "" if has_own else secrets.token_hex(rules.SECRET_BYTES)


class SessionCalls(base.Calls):
    """Handles agents' reports, and requests about sessions."""

    def report(self, ctxt: Any, report: Any) -> None:
        """Process an agent's report."""
        parsed = checks.report(report, self._reports)
        if (
            parsed is not None
            and checks.is_of_sender(ctxt, parsed.host_uuid, "report")
            and not conductor_rpcapi.is_outdated(
                parsed.leader_epoch, self._epoch
            )
        ):
            self._pump.offer(parsed)
            with self._reported:
                self._reports[parsed.host_uuid] = report, parsed
                self._reported.notify_all()

    def prepared(self, ctxt: Any, prepared: Any) -> None:
        """Record that a slot is ready for its client."""
        parsed = checks.parsed(objects.Prepared.from_primitive, prepared)
        if parsed is not None and checks.is_of_sender(
            ctxt, parsed.host_uuid, "prepared"
        ):
            self._pump.offer(parsed)

    def cancel_session(
        self,
        ctxt: Any,
        project_id: Any,
        session_id: Any = None,
        request_id: Any = None,
        reason: Any = "",
    ) -> None:
        """Cancel a session, whether it is waiting or has a slot."""
        self._pass_on(
            inputs.Cancel,
            _CANCELLATION,
            ctxt,
            project_id=project_id,
            session_id=session_id,
            request_id=request_id,
            # The reason must not be empty, or the slot would not be revoked.
            reason=reason or codes.CANCELLED_BY_CLIENT,
        )

    def close_session(
        self,
        ctxt: Any,
        project_id: Any,
        session_id: Any,
        generation: Any,
        input_bytes: Any,
        output_bytes: Any,
        confirmed: Any,
    ) -> None:
        """End a session as completed, if its worker cannot report the end."""
        self._pass_on(
            inputs.Close,
            _CLOSE,
            ctxt,
            project_id=project_id,
            session_id=session_id,
            generation=generation,
            input_bytes=input_bytes,
            output_bytes=output_bytes,
            confirmed=confirmed is True,
        )

    def report_progress(
        self, ctxt: Any, project_id: Any, session_id: Any, input_bytes: Any
    ) -> None:
        """Record how much input a waiting client has processed itself."""
        self._pass_on(
            inputs.ClientProgress,
            _CLIENT_PROGRESS,
            ctxt,
            project_id=project_id,
            session_id=session_id,
            input_bytes=input_bytes,
        )

    @base.call
    def end_sessions(
        self, ctxt: Any, ends: Any
    ) -> list[dict[str, Any] | None]:
        """Cancel or close sessions; return them."""
        wanted = list(map(_end, checks.ends(ends)))
        return [view and view.to_primitive() for view in self._answers(wanted)]

    def _pass_on(
        self,
        kind: Callable[..., inputs.Input],
        shape: shapes.Shape[Any],
        ctxt: Any,
        **values: Any,
    ) -> None:
        """Queue a client's message, or drop it if it is malformed."""
        try:
            shape(values, "")
        except shapes.Invalid as error:
            LOG.warning("Malformed %s dropped: %s", kind.__name__, error)
            return
        item = kind(**values, sender=rpc.host_of(ctxt))
        self._pump.offer(item, values["project_id"])

    def renew_secret(self, ctxt: Any, session_id: Any) -> None:
        """Request a new secret for a READY session."""
        if isinstance(session_id, str):
            self._pump.offer(inputs.RenewSecret(session_id))

    @base.call
    def submit_sessions(
        self, ctxt: Any, requests: Any
    ) -> list[dict[str, Any]]:
        """Admit requests; return a session, or a refusal, for each of them."""
        until = self._pump.now() + base.ANSWER_S
        wanted = [
            inputs.Open(request, until, _secret_for(request))
            for request in checks.requests(ctxt, requests)
        ]
        return [view.to_primitive() for view in self._answers(wanted) if view]

    @base.call
    def dry_run(self, ctxt: Any, request: Any) -> dict[str, Any]:
        """Return what would happen to a request, without changing anything."""
        (parsed,) = checks.requests(ctxt, [request], "dry_run")
        with (
            self._places.take(),
            self._dry_runs.turn(parsed.project_id) as count,
        ):

            def prepared(asked: Any) -> Callable[[], objects.DryRun]:
                with count():
                    return asked.opening.dry_run(parsed)

            found = self._ask(prepared, durable=False)
            with count():
                return found().to_primitive()

    @base.call
    def reopen_session(
        self,
        ctxt: Any,
        project_id: str,
        session_id: str,
        generation: int,
        host_uuid: str,
    ) -> dict[str, Any] | None:
        """Give another slot to a session that lost its own, if possible."""
        checks.require_own(ctxt, host_uuid, "reopen_session")
        (view,) = self._answers(
            [inputs.Reopen(project_id, session_id, generation, host_uuid)]
        )
        return view.to_primitive() if view else None

    def _answers(
        self, wanted: Sequence[_Awaited]
    ) -> list[objects.SessionView | None]:
        """Queue the inputs, and return their results."""
        until_s = time.monotonic() + base.ANSWER_S
        with self._places.take():
            try:
                for one in wanted:
                    self._offer(one, one.project_id)
                return [
                    base.durable(one.future, until_s - time.monotonic())
                    for one in wanted
                ]
            finally:
                # Results that come later are sent as notifications.
                for one in wanted:
                    one.future.cancel()

    @base.call
    def session_now(
        self, ctxt: Any, session_id: str, project_id: str
    ) -> dict[str, Any] | None:
        """Return a session's view, with the secret for its own project."""
        view = self._ask(lambda asked: asked.session(session_id, project_id))
        return view and view.to_primitive()

    @base.call
    def stage_endpoints(
        self,
        ctxt: Any,
        host_uuid: str,
        project_id: str,
        session_id: str,
        generation: int,
    ) -> list[dict[str, Any]]:
        """Return where the worker of a chain's next stage listens."""
        checks.require_own(ctxt, host_uuid, "stage_endpoints")
        return self._ask(
            lambda asked: asked.stage_endpoints(
                host_uuid, project_id, session_id, generation
            )
        )

    @base.call
    def changed_sessions(
        self, ctxt: Any, revisions: Any, host_uuid: str = ""
    ) -> dict[str, Any]:
        """Return the sessions whose revisions differ, and the ids of those
        that do not exist.
        """
        limits.argument(checks.REVISIONS, revisions, "revisions")
        if host_uuid:
            checks.require_own(ctxt, host_uuid, "changed_sessions")
        changed, missing = self._ask(
            lambda asked: asked.changed(revisions, host_uuid)
        )
        changed += self._forgotten(missing)
        found = {view.session_id for view in changed}
        return {
            "changed": [view.to_primitive() for view in changed],
            "unknown": [name for name in missing if name not in found],
        }

    def _forgotten(self, session_ids: list[str]) -> list[objects.SessionView]:
        # The database cannot look up names that it cannot store.
        names = [name for name in session_ids if limits.writable(name) == name]
        if not names:
            return []
        return [
            objects.SessionView.of(record)
            for record in self._database.sessions_by_ids(names)
        ]

    @base.call
    def list_accelerators(self, ctxt: Any) -> list[dict[str, Any]]:
        profiles = self._ask(
            lambda asked: list(asked.pool.catalogue.profiles.values())
        )
        return [profile.to_primitive() for profile in profiles]

    @base.call
    def accelerators_after(self, ctxt: Any, name: str) -> list[dict[str, Any]]:
        """Return a page of the library's accelerators."""

        def ask(asked: questions.Questions) -> list[dict[str, Any]]:
            profiles = asked.pool.catalogue.profiles
            names = sorted(one for one in profiles if one > name)
            return bounds.fitting(
                profiles[one].to_primitive() for one in names
            )

        return self._ask(ask)
