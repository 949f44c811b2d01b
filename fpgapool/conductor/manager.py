#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The conductor's RPC endpoint: handlers put inputs in, and return."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from typing import TypeVar

import oslo_messaging as messaging
from oslo_log import log as logging

from fpgapool import objects
from fpgapool.common import exception
from fpgapool.common import rpc
from fpgapool.conductor import admission
from fpgapool.conductor import inputs
from fpgapool.conductor import limits
from fpgapool.conductor import pump
from fpgapool.conductor import sessions
from fpgapool.core import codes
from fpgapool.db import api as db_api
from fpgapool.objects import base
from fpgapool.rpcapi import conductor as conductor_rpcapi

LOG = logging.getLogger(__name__)

# Shorter than the callers' own limit, so that they get the reason.
_T = TypeVar("_T", bound=base.Payload)

_ANSWER_S = 5.0

_MAX_IDS = 1000


class ConductorManager(rpc.Endpoint):
    """See :class:`fpgapool.rpcapi.conductor.ConductorAPI` for the calls.

    A malformed payload is logged and dropped where it is a cast, and
    answered with ``INVALID_REQUEST`` where it is a call.

    :param pumping: takes inputs and questions.
    :param database: for what has left the engine's memory.
    :param epoch: in which this conductor leads.
    """

    CASTS = frozenset(
        {
            "cancel_session",
            "open_session",
            "prepared",
            "renew_secret",
            "reopen_session",
            "report",
        }
    )

    target = messaging.Target(version=conductor_rpcapi.VERSION)

    def __init__(
        self,
        pumping: pump.Pump,
        database: db_api.Database,
        epoch: int,
    ) -> None:
        self._pump = pumping
        self._database = database
        self._epoch = epoch

    # -- casts -------------------------------------------------------------

    def report(self, ctxt: Any, report: Any) -> None:
        """Take an agent's state."""
        parsed = _parsed(objects.AgentReport.from_primitive, report)
        if parsed is not None and not conductor_rpcapi.is_outdated(
            parsed.leader_epoch, self._epoch
        ):
            self._pump.put(inputs.Report(parsed))

    def prepared(self, ctxt: Any, prepared: Any) -> None:
        """Take the news that a slot is ready for its client."""
        parsed = _parsed(objects.Prepared.from_primitive, prepared)
        if parsed is not None:
            self._pump.put(inputs.Prepared(parsed))

    def open_session(self, ctxt: Any, request: Any) -> None:
        """Take a request; a repeated one learns how things stand."""
        parsed = _parsed(objects.OpenRequest.from_primitive, request)
        if parsed is not None:
            self._pump.put(inputs.Open(parsed))

    def cancel_session(
        self,
        ctxt: Any,
        project_id: Any,
        session_id: Any = None,
        request_id: Any = None,
        reason: Any = "",
    ) -> None:
        """Take a session, waiting or not, out of the pool."""
        names = (project_id, session_id or "", request_id or "", reason)
        if not all(isinstance(name, str) for name in names):
            LOG.warning("Malformed cancellation dropped")
            return
        self._pump.put(
            inputs.Cancel(project_id, session_id, request_id, reason)
        )

    def reopen_session(
        self,
        ctxt: Any,
        project_id: Any,
        session_id: Any,
        generation: Any,
        host_uuid: Any,
    ) -> None:
        """Give a session that has lost its slot another one."""
        names = (project_id, session_id, host_uuid)
        if (
            not all(isinstance(name, str) for name in names)
            or type(generation) is not int
        ):
            LOG.warning("Malformed reopening dropped")
            return
        self._pump.put(
            inputs.Reopen(project_id, session_id, generation, host_uuid)
        )

    def renew_secret(self, ctxt: Any, session_id: Any) -> None:
        """Have a READY session's secret minted anew."""
        if isinstance(session_id, str):
            self._pump.put(inputs.RenewSecret(session_id))

    # -- calls -------------------------------------------------------------

    @messaging.expected_exceptions(exception.FpgapoolException)
    def submit_session(self, ctxt: Any, request: Any) -> dict[str, Any]:
        """Take a request and return the session, or why there is none."""
        try:
            parsed = objects.OpenRequest.from_primitive(request)
            limits.check(parsed)
        except ValueError as error:
            raise exception.InvalidRequest(reason=str(error)) from error
        self._pump.put(inputs.Open(parsed))
        outcome = self._ask(lambda engine: engine.outcome(parsed))
        if isinstance(outcome, objects.SessionView):
            # Its rows are on the disk, unless its name was used long ago:
            # the engine has heard of that by now.
            outcome = self._ask(lambda engine: engine.outcome(parsed))
        return self._told(parsed, outcome).to_primitive()

    def _told(
        self,
        request: objects.OpenRequest,
        outcome: objects.SessionView | admission.Rejected | None,
    ) -> objects.SessionView:
        if isinstance(outcome, objects.SessionView):
            return outcome
        if outcome is None:
            record = self._database.find_session(
                request.project_id, request.request_id
            )
            if record is not None:
                return sessions.Session.from_record(record, None).view()
            outcome = admission.Rejected(
                codes.REQUEST_EXPIRED, "the request came too late"
            )
        return admission.refusal(request, outcome, time.time())

    @messaging.expected_exceptions(exception.FpgapoolException)
    def get_sessions(
        self, ctxt: Any, session_ids: Any
    ) -> list[dict[str, Any]]:
        """Return the sessions of these ids, ended ones included."""
        if not isinstance(session_ids, list) or len(session_ids) > _MAX_IDS:
            raise exception.InvalidRequest(
                reason=f"session_ids must be a list of at most {_MAX_IDS}"
            )
        views = self._ask(lambda engine: engine.views(session_ids))
        found = {view.session_id for view in views}
        missing = [name for name in session_ids if name not in found]
        views += self._forgotten(missing)
        return [view.to_primitive() for view in views]

    @messaging.expected_exceptions(exception.FpgapoolException)
    def changed_sessions(self, ctxt: Any, revisions: Any) -> dict[str, Any]:
        """Return which sessions have other revisions, or do not exist."""
        if (
            not isinstance(revisions, dict)
            or len(revisions) > _MAX_IDS
            or any(
                type(revision) is not int for revision in revisions.values()
            )
        ):
            raise exception.InvalidRequest(
                reason=f"revisions must be whole numbers of at most {_MAX_IDS}"
                " sessions"
            )
        changed, missing = self._ask(lambda engine: engine.changed(revisions))
        changed += self._forgotten(missing)
        found = {view.session_id for view in changed}
        return {
            "changed": [view.to_primitive() for view in changed],
            "unknown": [name for name in missing if name not in found],
        }

    def _forgotten(self, session_ids: list[str]) -> list[objects.SessionView]:
        """Return those sessions that the engine has forgotten."""
        if not session_ids:
            return []
        return [
            sessions.Session.from_record(record, None).view()
            for record in self._database.sessions_by_ids(session_ids)
        ]

    @messaging.expected_exceptions(exception.FpgapoolException)
    def find_session(
        self, ctxt: Any, project_id: Any, request_id: Any
    ) -> dict[str, Any] | None:
        """Return the session that a request became, if it did."""
        view = self._ask(lambda engine: engine.find(project_id, request_id))
        return view.to_primitive() if view else None

    @messaging.expected_exceptions(exception.FpgapoolException)
    def list_accelerators(self, ctxt: Any) -> list[dict[str, Any]]:
        """Return the library."""
        profiles = self._ask(lambda engine: list(engine.profiles.values()))
        return [profile.to_primitive() for profile in profiles]

    @messaging.expected_exceptions(exception.FpgapoolException)
    def pool_summary(self, ctxt: Any) -> dict[str, Any]:
        """Return the pool at a glance."""
        summary: dict[str, Any] = self._ask(lambda engine: engine.summary())
        return summary

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        try:
            return self._pump.ask(question, _ANSWER_S)
        except TimeoutError:
            raise exception.DatabaseUnavailable(
                reason="no durable answer at the moment"
            ) from None


def _parsed(parse: Callable[[Any], _T], primitive: Any) -> _T | None:
    try:
        payload = parse(primitive)
        limits.check(payload)
        return payload
    except ValueError as error:
        LOG.warning("Malformed message dropped: %s", error)
        return None
