# SPDX-License-Identifier: Apache-2.0

"""The sessions that clients of a front door opened and still wait for.

Pure: what clients, the conductor and the clock do comes in as method calls,
what has to be done comes out as effects. Casts may be lost, so an open is
repeated until the conductor was heard of it, a reopening and a cancellation
until they have had their effect, and a session that was silent for long is
asked for.
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

FIRST_RESEND_S = 1.0
LONGEST_RESEND_S = 8.0

#: How long a cancellation is repeated. A conductor that comes back later
#: finds the session READY without a client and lets it expire.
CANCEL_REPEAT_S = 60.0

#: When a request that was not answered is taken back: a client that goes on
#: in spite of it has asked again by then.
TAKES_BACK_AFTER_S = 8.0

#: A new leader may answer before it has heard of a request that is only in
#: a cast, so one answer without a session is no proof.
POLLS_UNTIL_LOST = 2

MAX_POLLED_SESSIONS = 1000


# Why a request is cancelled that its client has not given up.
_TAKEN_BACK_BY_US = frozenset({codes.CLIENT_GONE, codes.CONDUCTOR_UNAVAILABLE})


@dataclasses.dataclass(frozen=True, slots=True)
class CastOpen:
    """Ask the conductor for the session."""

    request: objects.OpenRequest


@dataclasses.dataclass(frozen=True, slots=True)
class CastReopen:
    """Ask the conductor for another slot for a session that lost its own."""

    project_id: str
    session_id: str
    generation: int


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

    project_id: str
    session_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class Poll:
    """Ask the conductor for sessions that were not heard of.

    :ivar revisions: session ids, and what is known of each.
    """

    revisions: tuple[tuple[str, int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Push:
    """Send a view to the client that opened the session."""

    client: int
    view: objects.SessionView


Effect: typing.TypeAlias = (
    CastOpen | CastReopen | CastCancel | CastRenew | Poll | Push
)


@dataclasses.dataclass(slots=True, eq=False)
class _Open:
    """A session that a client waits for.

    :ivar wish: what is cast until it is answered.
    :ivar asked_at_revision: the answer is a view newer than this.
    """

    wish: CastOpen | CastReopen
    project_id: str
    host_uuid: str | None
    gives_up_at_s: float
    next_send_s: float
    client: int | None = None
    answered: bool = False
    asked_at_revision: int = -1
    resend_s: float = FIRST_RESEND_S
    view: objects.SessionView | None = None
    heard_at_s: float = 0.0
    absences: int = 0
    cancel_reason: str | None = None

    @property
    def request_id(self) -> str | None:
        if isinstance(self.wish, CastOpen):
            return self.wish.request.request_id
        return None if self.view is None else self.view.request_id

    @property
    def session_id(self) -> str | None:
        if isinstance(self.wish, CastReopen):
            return self.wish.session_id
        return None if self.view is None else self.view.session_id

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
        # By request; a reopened session whose request is not known yet is
        # among the others, by session.
        self._opens: dict[OpenKey, _Open] = {}
        self._nameless: dict[OpenKey, _Open] = {}
        # Those whose session is known.
        self._by_session: dict[str, _Open] = {}
        self._by_project: collections.Counter[str] = collections.Counter()
        # The inner ones are sets that keep their order.
        self._by_client: dict[int, dict[_Open, None]] = {}
        #: Views that came out of order and were dropped.
        self.stale_views = 0

    def __len__(self) -> int:
        return len(self._opens) + len(self._nameless)

    def count(self, client: int) -> int:
        """Return how many sessions a client waits for or uses.

        :param client: number of its connection.
        """
        return len(self._by_client.get(client, ()))

    def count_of_project(self, project_id: str) -> int:
        """Return how many sessions clients of a project wait for or use.

        :param project_id: the project.
        """
        return self._by_project[project_id]

    def is_counted(
        self,
        project_id: str,
        *,
        session_id: str = "",
        request_id: str = "",
    ) -> bool:
        """Whether a session of a project is one of those.

        :param session_id: the session, or
        :param request_id: the request that it came of.
        """
        if (project_id, request_id) in self._opens:
            return True
        return self._find(project_id, session_id) is not None

    def view(
        self, project_id: str, session_id: str
    ) -> objects.SessionView | None:
        """Return what is known of a session without asking anybody.

        :param project_id: project of the client that asks.
        :param session_id: the session.
        """
        entry = self._find(project_id, session_id)
        return None if entry is None else entry.view

    def _find(self, project_id: str, session_id: str) -> _Open | None:
        entry = self._by_session.get(session_id)
        if entry is not None and entry.project_id == project_id:
            return entry
        return self._nameless.get((project_id, session_id))

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
                wish=CastOpen(request),
                project_id=request.project_id,
                host_uuid=request.host_uuid,
                gives_up_at_s=now + self._open_timeout_s,
                next_send_s=now,
            )
            self._opens[request.project_id, request.request_id] = entry
            self._by_project[request.project_id] += 1
        elif entry.cancel_reason in _TAKEN_BACK_BY_US:
            # It has come back: let the session live if it still does.
            entry.cancel_reason = None
            entry.gives_up_at_s = now + self._open_timeout_s
            entry.resend_s = FIRST_RESEND_S
            if entry.view is None:
                # The conductor drops what has expired.
                entry.wish = CastOpen(request)
        self._attach(entry, client)
        if entry.view is None:
            entry.schedule(now)
            return [entry.wish]
        return _present(entry, client, entry.view)

    def reopen(
        self,
        client: int,
        host_uuid: str,
        lost: CastReopen,
        now: float,
    ) -> list[Effect]:
        """A client's session has lost its slot and shall get another one.

        :param client: number of its connection.
        :param host_uuid: host of the front door.
        :param lost: the session and the generation that is lost.
        :param now: seconds.
        :returns: effects.
        """
        entry = self._find(lost.project_id, lost.session_id)
        if entry is None:
            entry = _Open(
                wish=lost,
                project_id=lost.project_id,
                host_uuid=host_uuid,
                gives_up_at_s=now + self._open_timeout_s,
                next_send_s=now,
            )
            self._nameless[lost.project_id, lost.session_id] = entry
            self._by_project[lost.project_id] += 1
        self._attach(entry, client)
        view = entry.view
        if view is not None and _is_under_way(view, lost.generation):
            return _present(entry, client, view)
        self._ask_again(entry, lost, now)
        return [lost]

    def _ask_again(self, entry: _Open, lost: CastReopen, now: float) -> None:
        entry.wish = lost
        entry.answered = False
        entry.cancel_reason = None
        if entry.view is not None:
            entry.asked_at_revision = entry.view.revision
        entry.gives_up_at_s = now + self._open_timeout_s
        entry.resend_s = FIRST_RESEND_S
        entry.schedule(now)

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
        if request_id is not None:
            session_id = None
            entry = self._opens.get((project_id, request_id))
        else:
            entry = self._find(project_id, session_id or "")
        if entry is None:
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
        for entry in self._by_client.pop(client, ()):
            entry.client = None
            if not entry.answered:
                # A reopened one would get a slot that nobody comes to.
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
        """The conductor said what became of a session.

        :param view: the session.
        :param now: seconds.
        :returns: effects.
        """
        entry = self._entry_of(view)
        if entry is None:
            return []
        entry.heard_at_s = now
        entry.absences = 0
        if not _is_news(entry.view, view):
            self.stale_views += 1
            return []
        if not entry.answered and _is_answer(entry, view):
            entry.answered = True
            if entry.cancel_reason is None:
                # From here on the time between repeats is that of renewals.
                entry.resend_s = FIRST_RESEND_S
                entry.next_send_s = now + FIRST_RESEND_S
        entry.view = view
        if view.session_id:
            self._by_session[view.session_id] = entry
        if self._is_over(entry, view):
            return self._finish(entry, view)
        if entry.client is None or entry.lacks_secret():
            return []
        return [Push(entry.client, view)]

    def _entry_of(self, view: objects.SessionView) -> _Open | None:
        key = view.project_id, view.request_id
        if key not in self._opens:
            reopened = self._nameless.pop(
                (view.project_id, view.session_id), None
            )
            if reopened is not None:
                self._opens[key] = reopened
        return self._opens.get(key)

    def absent(self, session_ids: Iterable[str], now: float) -> list[Effect]:
        """The conductor answered a poll and does not know some sessions.

        :param session_ids: those that it did not name.
        :param now: seconds.
        :returns: effects.
        """
        effects: list[Effect] = []
        for session_id in session_ids:
            entry = self._by_session.get(session_id)
            if entry is None or entry.view is None:
                continue
            view = entry.view
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

    def unchanged(self, session_ids: Iterable[str], now: float) -> None:
        """The conductor answered a poll: some sessions are as they were.

        :param session_ids: those sessions.
        :param now: seconds.
        """
        for session_id in session_ids:
            entry = self._by_session.get(session_id)
            if entry is not None:
                entry.heard_at_s = now
                entry.absences = 0

    def tick(self, now: float) -> list[Effect]:
        """Repeat, give up and ask, as time demands.

        :param now: seconds.
        :returns: effects.
        """
        effects: list[Effect] = []
        silent: list[tuple[str, int]] = []
        for entry in [*self._opens.values(), *self._nameless.values()]:
            if now >= entry.gives_up_at_s and self._gives_up(entry):
                effects += self._give_up(entry, now)
                continue
            if now >= entry.next_send_s:
                effects += self._repeat(entry, now)
            view = entry.view
            if (
                view is not None
                and now >= entry.heard_at_s + self._poll_interval_s
            ):
                silent.append((view.session_id, view.revision))
        if silent:
            effects.append(Poll(tuple(silent[:MAX_POLLED_SESSIONS])))
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
        if entry.cancel_reason in (None, codes.CONDUCTOR_UNAVAILABLE):
            self._mark_cancelled(entry, reason, now)
        entry.schedule(now)
        return [_cancel_cast(entry, entry.cancel_reason or reason)]

    @staticmethod
    def _mark_cancelled(entry: _Open, reason: str, now: float) -> None:
        entry.cancel_reason = reason
        entry.gives_up_at_s = now + CANCEL_REPEAT_S
        entry.resend_s = FIRST_RESEND_S

    @staticmethod
    def _is_over(entry: _Open, view: objects.SessionView) -> bool:
        left_alone = (
            entry.answered
            and entry.client is None
            and view.state not in states.UNCONNECTED
        )
        return view.state in states.TERMINAL or left_alone

    @staticmethod
    def _gives_up(entry: _Open) -> bool:
        return not entry.answered or entry.cancel_reason is not None

    def _give_up(self, entry: _Open, now: float) -> list[Effect]:
        if entry.cancel_reason is not None and entry.view is not None:
            # The client, if there is one, goes on hearing of the session
            # when the conductor is back.
            entry.cancel_reason = None
            if entry.client is None:
                self._forget(entry)
            return []
        view = _unanswered_view(entry)
        if entry.cancel_reason is not None or isinstance(
            entry.wish, CastReopen
        ):
            # A running session is not taken back: its client may ask again.
            return self._finish(entry, view)
        # So may one whose request was taken in before this agent was
        # started. A cancellation that is under way by then would reach the
        # conductor first, when it comes back.
        self._mark_cancelled(entry, codes.CONDUCTOR_UNAVAILABLE, now)
        entry.next_send_s = now + TAKES_BACK_AFTER_S
        client = self._detach(entry)
        return [] if client is None else [Push(client, view)]

    @staticmethod
    def _repeat(entry: _Open, now: float) -> list[Effect]:
        if entry.cancel_reason is not None:
            entry.schedule(now)
            return [_cancel_cast(entry, entry.cancel_reason)]
        if not entry.answered:
            entry.schedule(now)
            return [entry.wish]
        if entry.view is not None and entry.lacks_secret():
            entry.schedule(now)
            return [CastRenew(entry.project_id, entry.view.session_id)]
        return []

    def _finish(self, entry: _Open, view: objects.SessionView) -> list[Effect]:
        client = entry.client
        self._forget(entry)
        return [] if client is None else [Push(client, view)]

    def _forget(self, entry: _Open) -> None:
        for named, name in (
            (self._opens, entry.request_id),
            (self._nameless, entry.session_id),
        ):
            key = entry.project_id, name or ""
            if named.get(key) is entry:
                del named[key]
                self._by_project[entry.project_id] -= 1
        if self._by_session.get(entry.session_id or "") is entry:
            del self._by_session[entry.session_id or ""]
        self._detach(entry)


def _present(
    entry: _Open, client: int, view: objects.SessionView
) -> list[Effect]:
    if entry.lacks_secret():
        return [CastRenew(entry.project_id, view.session_id)]
    return [Push(client, view)]


def _is_connected(entry: _Open, in_use: frozenset[str]) -> bool:
    view = entry.view
    return view is not None and (
        view.state not in states.UNCONNECTED or view.session_id in in_use
    )


def _is_under_way(view: objects.SessionView, lost_generation: int) -> bool:
    """Whether a session has, or waits for, a slot after a certain one."""
    return view.generation > lost_generation or (
        view.generation == lost_generation and view.state == states.QUEUED
    )


def _is_answer(entry: _Open, view: objects.SessionView) -> bool:
    if isinstance(entry.wish, CastOpen):
        return True
    # What is said of the slot that was lost is none.
    return view.revision > entry.asked_at_revision and (
        view.generation > entry.wish.generation
        or view.state == states.QUEUED
        or view.state in states.TERMINAL
    )


def _may_be_in_use(entry: _Open) -> bool:
    """Whether the slot may have been used all along.

    Word of its client's connection, or of its end in order, comes from the
    worker by way of its agent and the conductor: it must not be overtaken by
    a cancellation, also not where the slot is on this host.
    """
    return entry.view is not None and entry.view.state == states.READY


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


def _cancel_cast(entry: _Open, reason: str) -> CastCancel:
    request_id = entry.request_id
    return CastCancel(
        project_id=entry.project_id,
        session_id=entry.session_id if request_id is None else None,
        request_id=request_id,
        reason=reason,
    )


def _unanswered_view(entry: _Open) -> objects.SessionView:
    reason = codes.CONDUCTOR_UNAVAILABLE
    message = "the conductor did not answer in time"
    if isinstance(entry.wish, CastOpen):
        request = entry.wish.request
        return objects.SessionView(
            session_id="",
            request_id=request.request_id,
            project_id=request.project_id,
            state=states.REJECTED,
            reason=reason,
            message=message,
            accelerator=request.accelerator,
            claimed_bytes=request.claimed_bytes,
            host_uuid=request.host_uuid,
        )
    known = entry.view or objects.SessionView(
        session_id=entry.wish.session_id,
        request_id="",
        project_id=entry.project_id,
        state=states.LOST,
        accelerator="",
        claimed_bytes=0,
        generation=entry.wish.generation,
        host_uuid=entry.host_uuid,
    )
    return dataclasses.replace(
        known.public(),
        state=states.LOST,
        reason=reason,
        message=message,
        revision=known.revision + 1,
    )
