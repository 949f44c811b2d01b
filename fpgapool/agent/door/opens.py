# SPDX-License-Identifier: Apache-2.0

"""Sessions that a front door's clients have opened and wait for.

Without I/O: input from clients, the conductor and the clock arrives as method
calls, which return effects, the actions to take. Nothing is stored on disk,
and any message may be lost. So an entry repeats its request until the
conductor's view of the session shows that it has arrived:

* *asking*: the submit or reopen is unanswered. The call is repeated with
growing pauses. After ``open_timeout_s`` the client gets
``CONDUCTOR_UNAVAILABLE``, and a new session is cancelled.
* *answered*: a view has arrived. Newer views go to the client. While a session
is silent, the host's reports name it and its revision, so that the conductor
sends lost news again. It is silent, too, about sessions that have not changed
and those that it does not remember. So a session that stays silent is polled.
* *cancelling*: the client has cancelled or closed the session, or disconnected
before it could use it. The cast is repeated for ``CANCEL_REPEAT_S``, unless
the client reconnects.

The entry is forgotten when the session has ended, or when its client
disconnects while the session is in use: the worker then handles its end.
Replies to calls and unsolicited views from the conductor are handled in the
same way, ordered by revision.
"""

from __future__ import annotations

import collections
import dataclasses
import typing
from collections.abc import Iterable

from fpgapool import objects
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

#: (project id, request id or session id)
OpenKey: typing.TypeAlias = tuple[str, str]

#: Minimum interval between a waiting client's reports of its own progress.
REPORT_INTERVAL_S = 1.0
FIRST_RESEND_S = 1.0
LONGEST_RESEND_S = 8.0

#: Time for which a cancellation is repeated. If the conductor returns later,
#: it lets the session expire, because no client connects.
CANCEL_REPEAT_S = 60.0

#: Delay before an unanswered request is cancelled. A client that still wants
#: the session repeats its request before then.
TAKES_BACK_AFTER_S = 8.0

#: Maximum number of sessions in a poll or report.
MAX_POLLED_SESSIONS = 1000

#: Sessions are polled after this many intervals: a call costs the conductor
#: far more than a few members of a report.
POLL_AFTER_INTERVALS = 12

# Reasons for cancelling a session that its client did not cancel.
_TAKEN_BACK_BY_US = frozenset({codes.CLIENT_GONE, codes.CONDUCTOR_UNAVAILABLE})


@dataclasses.dataclass(frozen=True, slots=True)
class Reopen:
    """Request another slot for a session that lost its slot."""

    host_uuid: str
    project_id: str
    session_id: str
    generation: int


@dataclasses.dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel a session.

    Exactly one of the two ids is set.
    """

    project_id: str
    session_id: str | None
    request_id: str | None
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Close:
    """Report to the conductor that a client has closed its session.

    :ivar generation: generation of the slot that last served the session.
    :ivar input_bytes: input bytes that the slots have processed.
    :ivar confirmed: whether the worker has confirmed the end; if the worker's
        own report arrives, it takes precedence.
    """

    project_id: str
    session_id: str
    generation: int
    input_bytes: int
    output_bytes: int
    confirmed: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Poll:
    """Query the conductor for changes of sessions without recent views.

    :ivar sessions: project id, session id and known revision of each.
    """

    sessions: tuple[tuple[str, str, int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Push:
    """Send a view to the client that opened the session."""

    client: int
    view: objects.SessionView


#: A request for a new session, or for another slot.
Opening: typing.TypeAlias = objects.OpenRequest | Reopen
Effect: typing.TypeAlias = Opening | Cancel | Close | Poll | Push


@dataclasses.dataclass(slots=True, eq=False)
class _Open:
    """A session that a client waits for."""

    opening: Opening
    gives_up_at_s: float
    #: Its keys in the indexes; each is None while the id is unknown.
    by_request: OpenKey | None = None
    by_session: OpenKey | None = None
    secret: str = dataclasses.field(default="", repr=False)
    next_send_s: float = 0.0
    client: int | None = None
    asking: bool = False
    answered: bool = False
    resend_s: float = FIRST_RESEND_S
    view: objects.SessionView | None = None
    heard_at_s: float = 0.0
    named_at_s: float = 0.0
    cancel_reason: str | None = None
    close: Close | None = None
    reports_from_s: float = 0.0

    def client_view(self) -> objects.SessionView | None:
        """Return the client's view; None if the slot's secret is unknown."""
        view = self.view
        if view is None or view.secret or not _may_be_in_use(self):
            return view
        if (
            isinstance(self.opening, objects.OpenRequest)
            and view.secret_sha256
            and view.secret_sha256 == self.opening.secret_sha256
        ):
            return dataclasses.replace(view, secret=self.secret)
        return None

    def awaits_another(self) -> bool:
        """Whether the slot expects a secret other than the request's."""
        view = self.view
        return (
            isinstance(self.opening, objects.OpenRequest)
            and view is not None
            and view.secret_sha256 not in ("", self.opening.secret_sha256)
        )

    def schedule(self, now: float) -> None:
        self.next_send_s = now + self.resend_s
        self.resend_s = min(2 * self.resend_s, LONGEST_RESEND_S)


@dataclasses.dataclass(eq=False, kw_only=True)
class Opens:
    """All sessions of one front door that have not ended.

    :param open_timeout_s: time in which the conductor must answer.
    :param poll_interval_s: time without news after which reports may name a
        session.
    """

    open_timeout_s: float
    poll_interval_s: float

    def __post_init__(self) -> None:
        # A dict used as an ordered set; the indexes refer to its members.
        self._opens: dict[_Open, None] = {}
        self._by_request: dict[OpenKey, _Open] = {}
        self._by_session: dict[OpenKey, _Open] = {}
        self._by_project: collections.Counter[str] = collections.Counter()
        # The inner dicts are used as ordered sets.
        self._by_client: dict[int, dict[_Open, None]] = {}
        #: Number of outdated views that were dropped.
        self.stale_views = 0

    def __len__(self) -> int:
        return len(self._opens)

    def count(self, client: int) -> int:
        """Return how many sessions a client waits for or uses."""
        return len(self._by_client.get(client, ()))

    def count_of_project(self, project_id: str) -> int:
        """Return how many sessions a project's clients wait for or use."""
        return self._by_project[project_id]

    def is_counted(
        self,
        project_id: str,
        *,
        session_id: str = "",
        request_id: str = "",
    ) -> bool:
        """Return whether :meth:`count_of_project` includes a session."""
        return (project_id, request_id) in self._by_request or (
            (project_id, session_id) in self._by_session
        )

    def view(
        self, project_id: str, session_id: str
    ) -> objects.SessionView | None:
        """Return the view of a session, if it is known here."""
        entry = self._by_session.get((project_id, session_id))
        return None if entry is None else entry.view

    def open(
        self,
        client: int,
        request: objects.OpenRequest,
        now: float,
        secret: str = "",
    ) -> list[Effect]:
        """Handle a client's request for a session, perhaps a repeated one.

        :param secret: the secret for the client's first connection to a slot;
            the conductor receives only its hash.
        """
        entry = self._by_request.get((request.project_id, request.request_id))
        if entry is None:
            entry = _Open(
                opening=request,
                gives_up_at_s=now + self.open_timeout_s,
                by_request=(request.project_id, request.request_id),
                secret=secret,
            )
            self._add(entry)
        elif entry.cancel_reason in _TAKEN_BACK_BY_US:
            # The client has reconnected: keep the session if it still exists.
            entry.cancel_reason = None
            entry.gives_up_at_s = now + self.open_timeout_s
            entry.resend_s = FIRST_RESEND_S
            if entry.view is None:
                entry.opening, entry.asking = request, False
                entry.secret = secret
        self._attach(entry, client)
        if entry.view is None:
            return self._ask(entry)
        return self._present(entry, now)

    def reopen(self, client: int, lost: Reopen, now: float) -> list[Effect]:
        """Handle a client's request for a slot that replaces a lost one."""
        entry = self._by_session.get((lost.project_id, lost.session_id))
        if entry is None:
            entry = _Open(
                opening=lost,
                gives_up_at_s=now + self.open_timeout_s,
                by_session=(lost.project_id, lost.session_id),
            )
            self._add(entry)
        self._attach(entry, client)
        if entry.view is not None and _answers(lost, entry.view):
            return self._present(entry, now)
        if entry.opening != lost:
            entry.opening, entry.asking = lost, False
        entry.answered = False
        entry.cancel_reason = None
        entry.gives_up_at_s = now + self.open_timeout_s
        entry.resend_s = FIRST_RESEND_S
        return self._ask(entry)

    def may_report(
        self, client: int, project_id: str, session_id: str, now: float
    ) -> bool:
        """Return whether a client may report its own progress now."""
        entry = self._by_session.get((project_id, session_id))
        if (
            entry is None
            or entry.client != client
            or now < entry.reports_from_s
        ):
            return False
        entry.reports_from_s = now + REPORT_INTERVAL_S
        return True

    @staticmethod
    def _ask(entry: _Open) -> list[Effect]:
        if entry.asking:
            return []
        entry.asking = True
        return [entry.opening]

    def call_ended(self, opening: Opening, now: float) -> None:
        """Record that a call has ended; its result was handled before."""
        if isinstance(opening, objects.OpenRequest):
            entry = self._by_request.get(
                (opening.project_id, opening.request_id)
            )
        else:
            entry = self._by_session.get(
                (opening.project_id, opening.session_id)
            )
        if entry is not None and entry.opening is opening:
            entry.asking = False
            if entry.cancel_reason is None:
                entry.schedule(now)

    def cancel(
        self,
        project_id: str,
        session_id: str | None,
        request_id: str | None,
        reason: str,
        now: float,
    ) -> list[Effect]:
        """Handle a client's request to cancel a session."""
        if request_id is not None:
            session_id = None
            entry = self._by_request.get((project_id, request_id))
        else:
            entry = self._by_session.get((project_id, session_id or ""))
        if entry is None:
            return [Cancel(project_id, session_id, request_id, reason)]
        return self._cancel(entry, reason, now)

    def close(
        self, close: Close, now: float, *, has_room: bool = True
    ) -> list[Effect]:
        """Handle a client's report that it has closed a session.

        The worker also reports the end to the conductor, but worker and agent
        may die first. So the client's report is sent, too: immediately if the
        worker has not confirmed the end, otherwise if the worker's report is
        missing.

        :param has_room: whether there may be one more entry.
        """
        key = close.project_id, close.session_id
        entry = self._by_session.get(key)
        if entry is None:
            # An earlier agent process opened it, its client's connection has
            # ended just now, or it is known to have ended.
            if close.confirmed:
                return []
            if not has_room:
                return [close]
            # A leader may die before it has recorded the close, so it is
            # repeated.
            opening = Reopen("", *key, close.generation)
            entry = _Open(opening=opening, gives_up_at_s=now, by_session=key)
            self._add(entry)
        entry.close = close
        self._detach(entry)
        self._mark_cancelled(entry, codes.CANCELLED_BY_CLIENT, now)
        entry.schedule(now)
        return [] if close.confirmed else [close]

    def client_gone(
        self, client: int, now: float, active: Iterable[str] = ()
    ) -> list[Effect]:
        """Handle the end of a client's connection.

        :param active: sessions that use slots of this host, regardless of the
            state that the conductor last reported.
        """
        in_use = frozenset(active)
        effects: list[Effect] = []
        for entry in self._by_client.pop(client, ()):
            entry.client = None
            if not entry.answered:
                # Without a client, nobody would connect to the requested slot.
                effects += self._cancel(entry, codes.CLIENT_GONE, now)
            elif _is_connected(entry, in_use):
                self._forget(entry)
            elif _may_be_in_use(entry):
                self._mark_cancelled(entry, codes.CLIENT_GONE, now)
                entry.schedule(now)
            else:
                effects += self._cancel(entry, codes.CLIENT_GONE, now)
        return effects

    def heard(self, view: objects.SessionView, now: float) -> list[Effect]:
        """Handle a view of a session from the conductor."""
        key = view.project_id, view.request_id
        entry = self._by_request.get(key) or self._by_session.get(
            (view.project_id, view.session_id)
        )
        if entry is None:
            return []
        entry.heard_at_s = entry.named_at_s = now
        if entry.view is not None and view.revision <= entry.view.revision:
            self.stale_views += 1
            return []
        entry.answered = entry.answered or _answers(entry.opening, view)
        entry.view = view
        if view.request_id:
            entry.by_request = view.project_id, view.request_id
        entry.by_session = view.project_id, view.session_id
        self._index(entry)
        if self._is_over(entry, view):
            return self._finish(entry, view)
        if entry.close is not None and view.state in states.TERMINAL:
            # The conductor does not know yet that the session was served.
            return self._repeat(entry, now)
        return self._present(entry, now)

    def _present(self, entry: _Open, now: float) -> list[Effect]:
        """Send a client the known state of its session.

        Repeat the request if the slot expects a secret other than the
        client's.
        """
        if entry.client is None:
            return []
        view = entry.client_view()
        if view is not None:
            return [Push(entry.client, view)]
        if not entry.awaits_another():
            return []
        # The slot expects a secret from an earlier agent process: the
        # conductor has not processed this agent's request yet.
        entry.answered = False
        entry.gives_up_at_s = now + self.open_timeout_s
        entry.resend_s = FIRST_RESEND_S
        return self._ask(entry)

    def _add(self, entry: _Open) -> None:
        self._opens[entry] = None
        self._by_project[entry.opening.project_id] += 1
        self._index(entry)

    def _index(self, entry: _Open) -> None:
        if entry.by_request is not None:
            self._by_request[entry.by_request] = entry
        if entry.by_session is not None:
            self._by_session[entry.by_session] = entry

    def polled(
        self,
        poll: Poll,
        changed: Iterable[objects.SessionView],
        unknown: Iterable[str],
        now: float,
    ) -> list[Effect]:
        """Handle the conductor's answer to a poll.

        :param unknown: ids of sessions that do not exist. The conductor
            records a session before it answers, so these are lost.
        """
        effects: list[Effect] = []
        lost = frozenset(unknown)
        for project_id, session_id, _revision in poll.sessions:
            entry = self._by_session.get((project_id, session_id))
            if entry is None or entry.view is None:
                continue
            entry.heard_at_s = entry.named_at_s = now
            if session_id in lost:
                effects += self._finish(
                    entry,
                    _lost(
                        entry.view,
                        codes.SESSION_NOT_FOUND,
                        "the conductor has no record of this session",
                    ),
                )
        for view in changed:
            effects += self.heard(view, now)
        return effects

    def to_report(self, now: float) -> dict[str, int]:
        """Return the revisions of silent sessions, by id, for a report.

        The next reports omit them.
        """
        found: dict[str, int] = {}
        for entry in self._opens:
            view = entry.view
            if view is None or now < entry.named_at_s + self.poll_interval_s:
                continue
            if len(found) == MAX_POLLED_SESSIONS:
                break
            entry.named_at_s = now
            found[view.session_id] = view.revision
        return found

    def tick(self, now: float) -> list[Effect]:
        """Give up, repeat or poll each entry that is due."""
        effects: list[Effect] = []
        silent: list[tuple[str, str, int]] = []
        # Sessions to poll later: one poll of all costs the conductor much less
        # than many of few.
        soon: list[tuple[str, str, int]] = []
        limit_s = POLL_AFTER_INTERVALS * self.poll_interval_s
        for entry in list(self._opens):
            if now >= entry.gives_up_at_s and _gives_up(entry):
                effects += self._give_up(entry, now)
                continue
            if now >= entry.next_send_s:
                effects += self._repeat(entry, now)
            view = entry.view
            if view is None:
                continue
            silent_s = now - entry.heard_at_s
            if silent_s >= self.poll_interval_s:
                group = silent if silent_s >= limit_s else soon
                group.append((view.project_id, view.session_id, view.revision))
        if silent:
            polled = [*silent, *soon][:MAX_POLLED_SESSIONS]
            effects.append(Poll(tuple(polled)))
        return effects

    def _attach(self, entry: _Open, client: int) -> None:
        if entry.client != client:
            self._detach(entry)
        entry.client = client
        self._by_client.setdefault(client, {})[entry] = None

    def _detach(self, entry: _Open) -> int | None:
        client, entry.client = entry.client, None
        if client is not None:
            self._by_client[client].pop(entry, None)
        return client

    def _cancel(self, entry: _Open, reason: str, now: float) -> list[Effect]:
        if entry.cancel_reason is None or (
            # What its client says itself counts more, also if it has
            # disconnected before.
            entry.cancel_reason in _TAKEN_BACK_BY_US
        ):
            self._mark_cancelled(entry, reason, now)
        entry.schedule(now)
        return [_cancellation(entry, entry.cancel_reason or reason)]

    @staticmethod
    def _mark_cancelled(entry: _Open, reason: str, now: float) -> None:
        entry.cancel_reason = reason
        entry.gives_up_at_s = now + CANCEL_REPEAT_S
        entry.resend_s = FIRST_RESEND_S

    @staticmethod
    def _is_over(entry: _Open, view: objects.SessionView) -> bool:
        if entry.close is not None:
            return view.state in states.TERMINAL and (
                view.state == states.CLOSED or view.reason not in codes.UNSEEN
            )
        left_alone = (
            entry.answered
            and entry.client is None
            and view.state not in states.UNCONNECTED
        )
        return view.state in states.TERMINAL or left_alone

    def _give_up(self, entry: _Open, now: float) -> list[Effect]:
        if entry.cancel_reason is not None and entry.view is not None:
            # A connected client is notified once the conductor answers again.
            entry.cancel_reason = None
            if entry.client is None:
                self._forget(entry)
            return []
        view = _unanswered_view(entry)
        if entry.cancel_reason is not None or isinstance(
            entry.opening, Reopen
        ):
            # A session that was served is not cancelled: its client may
            # request another slot again.
            return self._finish(entry, view)
        # The client may also repeat its request. Delay the cancellation, which
        # would otherwise reach the returning conductor before that request.
        self._mark_cancelled(entry, codes.CONDUCTOR_UNAVAILABLE, now)
        entry.next_send_s = now + TAKES_BACK_AFTER_S
        client = self._detach(entry)
        return [] if client is None else [Push(client, view)]

    def _repeat(self, entry: _Open, now: float) -> list[Effect]:
        if entry.cancel_reason is not None:
            entry.schedule(now)
            return [_cancellation(entry, entry.cancel_reason)]
        return [] if entry.answered else self._ask(entry)

    def _finish(self, entry: _Open, view: objects.SessionView) -> list[Effect]:
        client = entry.client
        self._forget(entry)
        return [] if client is None else [Push(client, view)]

    def _forget(self, entry: _Open) -> None:
        if entry in self._opens:
            del self._opens[entry]
            self._by_project[entry.opening.project_id] -= 1
        for index, key in (
            (self._by_request, entry.by_request),
            (self._by_session, entry.by_session),
        ):
            # The key may now belong to another entry.
            if key is not None and index.get(key) is entry:
                del index[key]
        self._detach(entry)


def _gives_up(entry: _Open) -> bool:
    return not entry.answered or entry.cancel_reason is not None


def _is_connected(entry: _Open, in_use: frozenset[str]) -> bool:
    view = entry.view
    return view is not None and (
        view.state not in states.UNCONNECTED or view.session_id in in_use
    )


def _answers(opening: Opening, view: objects.SessionView) -> bool:
    """Return whether a view answers a submit or reopen."""
    if isinstance(opening, objects.OpenRequest):
        return True
    # A view that still shows the lost slot is not an answer.
    return view.generation > opening.generation or (
        view.generation == opening.generation
        and (view.state == states.QUEUED or view.state in states.TERMINAL)
    )


def _may_be_in_use(entry: _Open) -> bool:
    """Return whether the slot may be in use.

    The worker's report that the client has connected, or ended the session,
    reaches the conductor through the agent. A cancellation must not overtake
    it, even for a slot on this host.
    """
    view = entry.view
    return view is not None and (
        view.state == states.READY
        # The slot's holder leaves first, which it may have done.
        or (view.state == states.PREPARING and bool(view.endpoints))
    )


def _cancellation(entry: _Open, reason: str) -> Cancel | Close:
    if entry.close is not None:
        return entry.close
    project_id = entry.opening.project_id
    if entry.by_request is not None:
        return Cancel(project_id, None, entry.by_request[1], reason)
    session_id = None if entry.by_session is None else entry.by_session[1]
    return Cancel(project_id, session_id, None, reason)


def _unanswered_view(entry: _Open) -> objects.SessionView:
    reason = codes.CONDUCTOR_UNAVAILABLE
    message = "the conductor did not answer in time"
    if isinstance(entry.opening, objects.OpenRequest):
        return objects.SessionView.rejected(entry.opening, reason, message)
    known = entry.view or objects.SessionView(
        session_id=entry.opening.session_id,
        request_id="",
        project_id=entry.opening.project_id,
        state=states.LOST,
        accelerator="",
        claimed_bytes=0,
        generation=entry.opening.generation,
        host_uuid=entry.opening.host_uuid,
    )
    return _lost(known, reason, message)


def _lost(
    known: objects.SessionView, reason: str, message: str
) -> objects.SessionView:
    return dataclasses.replace(
        known.public(),
        state=states.LOST,
        reason=reason,
        message=message,
        revision=known.revision + 1,
    )
