# SPDX-License-Identifier: Apache-2.0

"""Opens and ends clients' sessions, as :mod:`.opens` decides."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import secrets
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.agent import loop as agent_loop
from fpgapool.agent import sender
from fpgapool.agent import settings as agent_settings
from fpgapool.agent.door import doorway
from fpgapool.agent.door import opens
from fpgapool.agent.door import requests
from fpgapool.common.monitoring import ratelimit
from fpgapool.common.monitoring import tracing
from fpgapool.rpcapi import conductor as conductor_api
from fpgapool.vocabulary import carriers
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules

LOG = logging.getLogger(__name__)

TICK_S = 0.25

MAX_OPENS_PER_CLIENT = 1024

#: Maximum number of requests in one call to the conductor.
MAX_TOGETHER = 100

#: Maximum number of concurrent calls for a project; further requests wait for
#: the next call, which combines them.
CALLS_PER_PROJECT = 4


@dataclasses.dataclass(eq=False)
class Sessions:
    """Opens and ends sessions for clients, and notifies them of changes.

    :param push: sends a session's view to the client with the given number.
    """

    settings: agent_settings.AgentSettings
    loop: agent_loop.Loop
    conductor: conductor_api.ConductorAPI
    casts: sender.Sender
    caller: sender.Caller
    opener: sender.Caller
    push: Callable[[int, objects.SessionView], None]
    is_open: Callable[[], bool]

    def __post_init__(self) -> None:
        self._log = ratelimit.RateLimitedLog(__name__)
        self._opens = opens.Opens(
            open_timeout_s=self.settings.open_timeout_s,
            poll_interval_s=self.settings.session_poll_interval_s,
        )
        self.view = self._opens.view
        # By project: unsent requests, and the number of calls in progress.
        self._unsent: dict[str, collections.deque[objects.OpenRequest]] = (
            collections.defaultdict(collections.deque)
        )
        self._calls: collections.Counter[str] = collections.Counter()
        self._ticking = False
        self._polling = False
        self._polls_again_s = 0.0

    def operations(
        self,
    ) -> dict[str, Callable[[doorway.Request], None]]:
        """Return the handler of each operation, by name."""
        return {
            "open": self._open,
            "reopen": self._reopen,
            "progress": self._progress,
            "cancel": self._cancel,
            "close": self._close,
        }

    def client_gone(self, number: int, in_use: Iterable[str]) -> None:
        """Handle the end of a client's connection.

        :param in_use: ids of the sessions that use slots of this host.
        """
        now = self.loop.now()
        self._apply(self._opens.client_gone(number, now, in_use))

    def changed(self, views: Iterable[objects.SessionView]) -> None:
        now = self.loop.now()
        for view in views:
            self._apply(self._opens.heard(view, now))

    def to_report(self) -> dict[str, int] | None:
        """Return the sessions that a report names; None if there are none."""
        return self._opens.to_report(self.loop.now()) or None

    # Operations.

    def _open(self, request: doorway.Request) -> None:
        given = carriers.valid(request.members.get("carrier"))
        span = tracing.begin(
            "front door open", given.get(carriers.TRACEPARENT)
        )
        try:
            self._take(request, tracing.within(given, span))
        except rules.RequestError as error:
            span.end(error=error.code)
            raise
        span.end()

    def _take(
        self, request: doorway.Request, carrier: carriers.Carrier
    ) -> None:
        client = request.client
        secret = secrets.token_hex(rules.SECRET_BYTES)
        wanted = requests.open_request(
            request.members,
            project_id=client.project_id,
            user_id=client.user_id,
            host_uuid=self.settings.host_uuid,
            secret_sha256=hashlib.sha256(secret.encode()).hexdigest(),
            carrier=carrier or None,
        )
        self._check_quota(client, request_id=wanted.request_id)
        # Send the answer first: notifications must not precede it.
        request.reply(session_id=None)
        if not client.closed:
            now = self.loop.now()
            self._apply(self._opens.open(client.number, wanted, now, secret))

    def _reopen(self, request: doorway.Request) -> None:
        client = request.client
        lost = opens.Reopen(
            self.settings.host_uuid,
            client.project_id,
            requests.session_id(request.members),
            requests.generation(request.members),
        )
        self._check_quota(client, session_id=lost.session_id)
        # Send the answer first, as in _open().
        request.reply()
        if not client.closed:
            now = self.loop.now()
            self._apply(self._opens.reopen(client.number, lost, now))

    def _progress(self, request: doorway.Request) -> None:
        project_id = request.client.project_id
        session_id = requests.session_id(request.members)
        input_bytes = requests.input_bytes(request.members)
        if self._opens.may_report(
            request.client.number, project_id, session_id, self.loop.now()
        ):
            self.casts.put(
                ("progress", project_id, session_id),
                lambda: self.conductor.report_progress(
                    project_id, session_id, input_bytes
                ),
                lane=project_id,
            )
        request.reply()

    def _cancel(self, request: doorway.Request) -> None:
        session_id, request_id = requests.cancel_target(request.members)
        self._apply(
            self._opens.cancel(
                request.client.project_id,
                session_id,
                request_id,
                codes.CANCELLED_BY_CLIENT,
                self.loop.now(),
            )
        )
        request.reply()

    def _close(self, request: doorway.Request) -> None:
        members = request.members
        close = opens.Close(
            request.client.project_id,
            requests.session_id(members),
            requests.generation(members),
            requests.input_bytes(members),
            requests.output_bytes(members),
            confirmed=members.get("confirmed") is True,
        )
        count = self._opens.count_of_project(close.project_id)
        has_room = count < self.settings.max_front_door_project_sessions
        self._apply(
            self._opens.close(close, self.loop.now(), has_room=has_room)
        )
        request.reply()

    def _check_quota(self, client: doorway.Client, **ids: str) -> None:
        if self._opens.count(client.number) >= MAX_OPENS_PER_CLIENT:
            raise rules.RequestError(
                codes.QUOTA_EXCEEDED,
                f"one connection may have at most {MAX_OPENS_PER_CLIENT} "
                "sessions",
            )
        if self._opens.is_counted(client.project_id, **ids):
            # The client has reconnected to a session that is already counted.
            return
        most = self.settings.max_front_door_project_sessions
        if self._opens.count_of_project(client.project_id) >= most:
            raise rules.RequestError(
                codes.QUOTA_EXCEEDED,
                f"a project's programs on one host may have at most {most}"
                " sessions at once",
            )

    # Effects.

    def _apply(self, effects: Iterable[opens.Effect]) -> None:
        for effect in effects:
            self._execute(effect)
        if len(self._opens) and not self._ticking:
            self._ticking = True
            self.loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._ticking = False
        if self.is_open():
            self._apply(self._opens.tick(self.loop.now()))

    def _execute(self, effect: opens.Effect) -> None:
        match effect:
            case opens.Push(number, view):
                self.push(number, view)
            case objects.OpenRequest():
                self._unsent[effect.project_id].append(effect)
                self._submit(effect.project_id)
            case opens.Reopen(host_uuid, project_id, lost_id, generation):
                self._call_for(
                    project_id,
                    [effect],
                    lambda: [
                        self.conductor.reopen_session(
                            project_id,
                            session_id=lost_id,
                            generation=generation,
                            host_uuid=host_uuid,
                        )
                    ],
                )
            case opens.Cancel(project_id, session_id, request_id, reason):
                self.casts.put(
                    ("cancel", project_id, request_id or session_id),
                    lambda: self.conductor.cancel_session(
                        project_id,
                        session_id=session_id,
                        request_id=request_id,
                        reason=reason,
                    ),
                    lane=project_id,
                )
            case opens.Close():
                self.casts.put(
                    ("cancel", effect.project_id, effect.session_id),
                    lambda: self.conductor.close_session(
                        **dataclasses.asdict(effect)
                    ),
                    lane=effect.project_id,
                )
            case opens.Poll():
                self._poll(effect)

    def _submit(self, project_id: str) -> None:
        """Submit waiting requests, unless too many calls are in progress."""
        unsent = self._unsent[project_id]
        if not unsent or self._calls[project_id] >= CALLS_PER_PROJECT:
            return
        count = min(len(unsent), MAX_TOGETHER)
        wanted = [unsent.popleft() for _ in range(count)]
        self._call_for(
            project_id,
            wanted,
            lambda: self.conductor.submit_sessions(wanted),
        )

    def _call_for(
        self,
        project_id: str,
        openings: Sequence[opens.Opening],
        call: Callable[[], Sequence[objects.SessionView | None]],
    ) -> None:
        def answered(views: Sequence[objects.SessionView | None]) -> None:
            self._calls[project_id] -= 1
            self.changed(view for view in views if view)
            for opening in openings:
                self._opens.call_ended(opening, self.loop.now())
            self._submit(project_id)

        def failed(error: Exception) -> None:
            self._log.warning("The conductor did not answer: %s", error)
            answered(())

        self._calls[project_id] += 1
        self.opener.submit(
            call,
            answered,
            failed,
            limit_s=self.settings.open_timeout_s,
            lane=project_id,
        )

    def _poll(self, poll: opens.Poll) -> None:
        if self._polling or self.loop.now() < self._polls_again_s:
            return
        self._polling = True

        def answered(
            answer: tuple[list[objects.SessionView], list[str]],
        ) -> None:
            self._polling = False
            now = self.loop.now()
            self._apply(self._opens.polled(poll, *answer, now))

        def failed(error: Exception) -> None:
            self._polling = False
            # Pause, because the conductor may be overloaded.
            self._polls_again_s = (
                self.loop.now() + self.settings.session_poll_interval_s
            )
            LOG.warning("Cannot poll sessions: %s", error)

        self.caller.submit(
            lambda: self.conductor.changed_sessions(
                {name: revision for _, name, revision in poll.sessions},
                host_uuid=self.settings.host_uuid,
            ),
            answered,
            failed,
        )
