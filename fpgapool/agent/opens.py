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

"""The sessions that clients of a front door opened and still wait for.

Pure: what clients, the conductor and the clock do comes in as method calls,
what has to be done comes out as effects. Casts may be lost, so an open is
repeated until the conductor was heard of it, a cancellation until it has
had its effect, and a session that was silent for long is asked for.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable

from fpgapool import objects
from fpgapool.core import codes
from fpgapool.objects import states

#: (project id, request id)
OpenKey: typing.TypeAlias = tuple[str, str]

FIRST_RESEND_S = 1.0
LONGEST_RESEND_S = 8.0

#: How long a cancellation is repeated. A conductor that comes back later
#: finds the session READY without a client and lets it expire.
CANCEL_REPEAT_S = 60.0

#: A new leader may answer before it has heard of a request that is only in
#: a cast, so one answer without a session is no proof.
POLLS_UNTIL_LOST = 2

MAX_POLLED_SESSIONS = 1000

#: The client has not come to its slot yet: nobody else would end these.
UNCONNECTED = frozenset({states.QUEUED, states.PREPARING, states.READY})


@dataclasses.dataclass(frozen=True, slots=True)
class CastOpen:
    """Ask the conductor for the session."""

    request: objects.OpenRequest


@dataclasses.dataclass(frozen=True, slots=True)
class CastCancel:
    """Tell the conductor that nobody wants the session any more.

    Exactly one of the two ids is set.
    """

    project_id: str
    session_id: str | None
    request_id: str | None
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class CastRenew:
    """Ask the conductor for a new secret of a READY session."""

    session_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class Poll:
    """Ask the conductor for sessions that were not heard of."""

    session_ids: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Push:
    """Send a view to the client that opened the session."""

    client: int
    view: objects.SessionView


Effect: typing.TypeAlias = CastOpen | CastCancel | CastRenew | Poll | Push


@dataclasses.dataclass(slots=True)
class _Open:
    request: objects.OpenRequest
    client: int | None
    gives_up_at_s: float
    next_send_s: float
    resend_s: float = FIRST_RESEND_S
    view: objects.SessionView | None = None
    heard_at_s: float = 0.0
    absences: int = 0
    cancel_reason: str | None = None

    @property
    def key(self) -> OpenKey:
        return self.request.project_id, self.request.request_id

    def lacks_secret(self) -> bool:
        view = self.view
        return (
            view is not None and view.state == states.READY and not view.secret
        )

    def schedule(self, now: float) -> None:
        self.next_send_s = now + self.resend_s
        self.resend_s = min(2 * self.resend_s, LONGEST_RESEND_S)


class Opens:
    """All requests of one front door that are not at their end.

    :param open_timeout_s: how long the conductor may take to say anything
        about a new request.
    :param poll_interval_s: how long a session may be silent until it is
        asked for.
    """

    def __init__(
        self, *, open_timeout_s: float, poll_interval_s: float
    ) -> None:
        self._open_timeout_s = open_timeout_s
        self._poll_interval_s = poll_interval_s
        self._opens: dict[OpenKey, _Open] = {}
        self._by_client: dict[int, set[OpenKey]] = {}
        #: Views that came out of order and were dropped.
        self.stale_views = 0

    def __len__(self) -> int:
        return len(self._opens)

    def view(
        self, project_id: str, session_id: str
    ) -> objects.SessionView | None:
        """Return what is known of a session without asking anybody.

        :param project_id: project of the client that asks.
        :param session_id: the session.
        """
        for entry in self._opens.values():
            view = entry.view
            if (
                view is not None
                and view.session_id == session_id
                and view.project_id == project_id
            ):
                return view
        return None

    def request_id(self, project_id: str, session_id: str) -> str | None:
        """Return the request that became a session, None if not known."""
        view = self.view(project_id, session_id)
        return None if view is None else view.request_id

    def open(
        self, client: int, request: objects.OpenRequest, now: float
    ) -> list[Effect]:
        """A client wants a session, or comes back for it.

        :param client: number of its connection.
        :param request: what it wants.
        :param now: seconds.
        :returns: effects.
        """
        entry = self._opens.get((request.project_id, request.request_id))
        if entry is None:
            entry = _Open(
                request=request,
                client=client,
                gives_up_at_s=now + self._open_timeout_s,
                next_send_s=now,
            )
            self._opens[entry.key] = entry
        elif entry.cancel_reason == codes.CLIENT_GONE:
            # It has come back: let the session live if it still does.
            entry.cancel_reason = None
            entry.gives_up_at_s = now + self._open_timeout_s
        self._attach(entry, client)
        if entry.view is None:
            entry.schedule(now)
            return [CastOpen(entry.request)]
        if entry.lacks_secret():
            return [CastRenew(entry.view.session_id)]
        return [Push(client, entry.view)]

    def cancel(
        self,
        project_id: str,
        session_id: str | None,
        request_id: str | None,
        reason: str,
        now: float,
    ) -> list[Effect]:
        """A client does not want a session any more.

        :param project_id: its project.
        :param session_id: the session, or None.
        :param request_id: the request, or None.
        :param reason: code.
        :param now: seconds.
        :returns: effects.
        """
        if request_id is None and session_id is not None:
            request_id = self.request_id(project_id, session_id)
        entry = self._opens.get((project_id, request_id or ""))
        if entry is None:
            if request_id is not None:
                session_id = None
            return [CastCancel(project_id, session_id, request_id, reason)]
        return self._cancel(entry, reason, now)

    def client_gone(
        self, client: int, now: float, active: Iterable[str] = ()
    ) -> list[Effect]:
        """A client's connection ended: nobody waits for its sessions.

        :param client: number of the connection.
        :param now: seconds.
        :param active: sessions that this host's slot table knows to be in
            use, whatever the conductor said last.
        :returns: effects.
        """
        in_use = frozenset(active)
        effects: list[Effect] = []
        for key in sorted(self._by_client.pop(client, ())):
            entry = self._opens[key]
            entry.client = None
            view = entry.view
            if view is not None and (
                view.state not in UNCONNECTED or view.session_id in in_use
            ):
                del self._opens[key]
            elif _may_be_in_use(entry):
                self._mark_cancelled(entry, codes.CLIENT_GONE, now)
                entry.schedule(now)
            else:
                effects += self._cancel(entry, codes.CLIENT_GONE, now)
        return effects

    def heard(self, view: objects.SessionView, now: float) -> list[Effect]:
        """The conductor said what became of a session.

        :param view: the session.
        :param now: seconds.
        :returns: effects.
        """
        entry = self._opens.get((view.project_id, view.request_id))
        if entry is None:
            return []
        entry.heard_at_s = now
        entry.absences = 0
        if not _is_news(entry.view, view):
            self.stale_views += 1
            return []
        if entry.view is None:
            # From here on the time between repeats is that of renewals.
            entry.resend_s = FIRST_RESEND_S
            entry.next_send_s = now + FIRST_RESEND_S
        entry.view = view
        if self._is_over(entry, view):
            return self._finish(entry, view)
        if entry.client is None or entry.lacks_secret():
            return []
        return [Push(entry.client, view)]

    def absent(self, session_ids: Iterable[str], now: float) -> list[Effect]:
        """The conductor answered a poll and does not know some sessions.

        :param session_ids: those that it did not name.
        :param now: seconds.
        :returns: effects.
        """
        unknown = frozenset(session_ids)
        effects: list[Effect] = []
        for entry in list(self._opens.values()):
            view = entry.view
            if view is None or view.session_id not in unknown:
                continue
            entry.heard_at_s = now
            entry.absences += 1
            if entry.absences >= POLLS_UNTIL_LOST:
                effects += self._finish(
                    entry,
                    dataclasses.replace(
                        view.public(),
                        state=states.LOST,
                        reason=codes.SESSION_NOT_FOUND,
                        message="the conductor does not know the session",
                        revision=view.revision + 1,
                    ),
                )
        return effects

    def tick(self, now: float) -> list[Effect]:
        """Repeat, give up and ask, as time demands.

        :param now: seconds.
        :returns: effects.
        """
        effects: list[Effect] = []
        silent: list[str] = []
        for entry in list(self._opens.values()):
            if now >= entry.gives_up_at_s and self._gives_up(entry):
                effects += self._give_up(entry)
                continue
            if now >= entry.next_send_s:
                effects += self._repeat(entry, now)
            view = entry.view
            if (
                view is not None
                and now >= entry.heard_at_s + self._poll_interval_s
            ):
                silent.append(view.session_id)
        if silent:
            effects.append(Poll(tuple(silent[:MAX_POLLED_SESSIONS])))
        return effects

    def _attach(self, entry: _Open, client: int) -> None:
        if entry.client is not None and entry.client != client:
            self._by_client[entry.client].discard(entry.key)
        entry.client = client
        self._by_client.setdefault(client, set()).add(entry.key)

    def _cancel(self, entry: _Open, reason: str, now: float) -> list[Effect]:
        if entry.cancel_reason is None:
            self._mark_cancelled(entry, reason, now)
        entry.schedule(now)
        return [_cancel_cast(entry)]

    @staticmethod
    def _mark_cancelled(entry: _Open, reason: str, now: float) -> None:
        entry.cancel_reason = reason
        entry.gives_up_at_s = now + CANCEL_REPEAT_S
        entry.resend_s = FIRST_RESEND_S

    @staticmethod
    def _is_over(entry: _Open, view: objects.SessionView) -> bool:
        left_alone = entry.client is None and view.state not in UNCONNECTED
        return view.state in states.TERMINAL or left_alone

    @staticmethod
    def _gives_up(entry: _Open) -> bool:
        return entry.view is None or entry.cancel_reason is not None

    def _give_up(self, entry: _Open) -> list[Effect]:
        if entry.cancel_reason is not None and entry.view is not None:
            # The client, if there is one, goes on hearing of the session
            # when the conductor is back.
            entry.cancel_reason = None
            if entry.client is None:
                self._forget(entry)
            return []
        cancelled = entry.cancel_reason is not None
        cancel = _cancel_cast(
            dataclasses.replace(
                entry, cancel_reason=codes.CONDUCTOR_UNAVAILABLE
            )
        )
        effects = self._finish(entry, _unanswered_view(entry.request))
        return effects if cancelled else [cancel, *effects]

    @staticmethod
    def _repeat(entry: _Open, now: float) -> list[Effect]:
        if entry.cancel_reason is not None:
            entry.schedule(now)
            return [_cancel_cast(entry)]
        if entry.view is None:
            entry.schedule(now)
            return [CastOpen(entry.request)]
        if entry.lacks_secret():
            entry.schedule(now)
            return [CastRenew(entry.view.session_id)]
        return []

    def _finish(self, entry: _Open, view: objects.SessionView) -> list[Effect]:
        client = entry.client
        self._forget(entry)
        return [] if client is None else [Push(client, view)]

    def _forget(self, entry: _Open) -> None:
        del self._opens[entry.key]
        if entry.client is not None:
            self._by_client[entry.client].discard(entry.key)


def _may_be_in_use(entry: _Open) -> bool:
    """Whether a slot of another host may have been used all along.

    Word of its client's connection, or of its end in order, comes by way of
    the conductor: it must not be overtaken by a cancellation.
    """
    view = entry.view
    return (
        view is not None
        and view.state == states.READY
        and view.slot_host_uuid != entry.request.host_uuid
    )


def _is_news(
    known: objects.SessionView | None, view: objects.SessionView
) -> bool:
    if known is None or view.revision > known.revision:
        return True
    # A poll is answered without the secret and may overtake the cast that
    # brings it.
    return (
        view.revision == known.revision
        and bool(view.secret)
        and not known.secret
    )


def _cancel_cast(entry: _Open) -> CastCancel:
    return CastCancel(
        project_id=entry.request.project_id,
        session_id=None,
        request_id=entry.request.request_id,
        reason=entry.cancel_reason or codes.CLIENT_GONE,
    )


def _unanswered_view(request: objects.OpenRequest) -> objects.SessionView:
    return objects.SessionView(
        session_id="",
        request_id=request.request_id,
        project_id=request.project_id,
        state=states.REJECTED,
        reason=codes.CONDUCTOR_UNAVAILABLE,
        message="the conductor did not answer in time",
        accelerator=request.accelerator,
        claimed_bytes=request.claimed_bytes,
        host_uuid=request.host_uuid,
    )
