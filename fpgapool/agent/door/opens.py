# SPDX-License-Identifier: Apache-2.0

"""The sessions that clients of a front door opened and still wait for.

Pure: clients, the conductor and the clock come in as method calls, and the
resulting actions come out as effects. Answers to calls and unsolicited news
from the conductor are handled alike. A failed call is repeated. A cancelling
cast may be lost, so it is repeated until it has taken effect. A session that
was silent for long is polled.
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

#: How often the client of a waiting session may report its own work.
REPORT_INTERVAL_S = 1.0
FIRST_RESEND_S = 1.0
LONGEST_RESEND_S = 8.0

#: How long a cancellation is repeated. A conductor that comes back later
#: finds the session READY without a client and lets it expire.
CANCEL_REPEAT_S = 60.0

#: An unanswered request is taken back after this time. A client that still
#: wants the session has asked again by then.
TAKES_BACK_AFTER_S = 8.0

MAX_POLLED_SESSIONS = 1000

# Reasons for cancelling a request that its client has not given up.
_TAKEN_BACK_BY_US = frozenset({codes.CLIENT_GONE, codes.CONDUCTOR_UNAVAILABLE})


@dataclasses.dataclass(frozen=True, slots=True)
class Submit:
    """Ask the conductor for the session."""

    request: objects.OpenRequest

    @property
    def project_id(self) -> str:
        """The client's project."""
        return self.request.project_id


@dataclasses.dataclass(frozen=True, slots=True)
class Reopen:
    """Ask the conductor for another slot for a session that lost its own.

    :ivar host_uuid: host of the front door.
    :ivar generation: the lost one.
    """

    host_uuid: str
    project_id: str
    session_id: str
    generation: int


@dataclasses.dataclass(frozen=True, slots=True)
class Cancel:
    """Tell the conductor that the session is not wanted any more.

    Exactly one of the two ids is set.
    """

    project_id: str
    session_id: str | None
    request_id: str | None
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Close:
    """Tell the conductor that a client has closed its session.

    :ivar generation: of the slot that served it last.
    :ivar input_bytes: that the client has sent, and the slots have computed.
    :ivar output_bytes: that it has received.
    :ivar confirmed: whether the worker has confirmed it; its report counts if
        it comes.
    """

    project_id: str
    session_id: str
    generation: int
    input_bytes: int
    output_bytes: int
    confirmed: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Poll:
    """Ask the conductor for sessions of which no news has come.

    :ivar sessions: project and session ids, and the known revision of each.
    """

    sessions: tuple[tuple[str, str, int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Push:
    """Send a view to the client that opened the session."""

    client: int
    view: objects.SessionView


Wish: typing.TypeAlias = Submit | Reopen
Effect: typing.TypeAlias = Wish | Cancel | Close | Poll | Push


@dataclasses.dataclass(slots=True, eq=False)
class _Open:
    """A session that a client waits for.

    :ivar wish: the call to make until it is answered.
    :ivar asking: whether a call is under way.
    :ivar secret: of which the request has the hash.
    """

    wish: Wish
    gives_up_at_s: float
    secret: str = dataclasses.field(default="", repr=False)
    next_send_s: float = 0.0
    client: int | None = None
    asking: bool = False
    answered: bool = False
    resend_s: float = FIRST_RESEND_S
    view: objects.SessionView | None = None
    heard_at_s: float = 0.0
    cancel_reason: str | None = None
    close: Close | None = None
    reports_from_s: float = 0.0

    @property
    def project_id(self) -> str:
        return self.wish.project_id

    @property
    def request_id(self) -> str:
        """Empty while it is unknown."""
        if isinstance(self.wish, Submit):
            return self.wish.request.request_id
        return "" if self.view is None else self.view.request_id

    @property
    def session_id(self) -> str:
        """Empty while it is unknown."""
        if isinstance(self.wish, Reopen):
            return self.wish.session_id
        return "" if self.view is None else self.view.session_id

    def shown(self) -> objects.SessionView | None:
        """Return the view for the client; None if it lacks the secret."""
        view = self.view
        if view is None or view.state != states.READY or view.secret:
            return view
        if (
            isinstance(self.wish, Submit)
            and view.secret_sha256
            and view.secret_sha256 == self.wish.request.secret_sha256
        ):
            return dataclasses.replace(view, secret=self.secret)
        return None

    def awaits_another(self) -> bool:
        """Whether the slot awaits a secret that is not the request's."""
        view = self.view
        return (
            isinstance(self.wish, Submit)
            and view is not None
            and view.secret_sha256 not in ("", self.wish.request.secret_sha256)
        )

    def schedule(self, now: float) -> None:
        self.next_send_s = now + self.resend_s
        self.resend_s = min(2 * self.resend_s, LONGEST_RESEND_S)


class Opens:
    """All requests of one front door that have not ended.

    :param open_timeout_s: how long the conductor may take to say anything
        about a new request.
    :param poll_interval_s: how long a session may be silent before it is
        polled.
    """

    def __init__(
        self, *, open_timeout_s: float, poll_interval_s: float
    ) -> None:
        self._open_timeout_s = open_timeout_s
        self._poll_interval_s = poll_interval_s
        # A dict serves as an ordered set; the indexes find its members.
        self._opens: dict[_Open, None] = {}
        self._by_request: dict[OpenKey, _Open] = {}
        self._by_session: dict[OpenKey, _Open] = {}
        self._by_project: collections.Counter[str] = collections.Counter()
        # The inner dicts serve as ordered sets.
        self._by_client: dict[int, dict[_Open, None]] = {}
        #: Views that came out of order and were dropped.
        self.stale_views = 0

    def __len__(self) -> int:
        return len(self._opens)

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
        """Whether a session of a project is counted among those.

        :param session_id: the session, or
        :param request_id: the request that led to it.
        """
        return (project_id, request_id) in self._by_request or (
            (project_id, session_id) in self._by_session
        )

    def view(
        self, project_id: str, session_id: str
    ) -> objects.SessionView | None:
        """Return the known view of a session without asking the conductor.

        :param project_id: project of the client that asks.
        :param session_id: the session.
        """
        entry = self._by_session.get((project_id, session_id))
        return None if entry is None else entry.view

    def open(
        self,
        client: int,
        request: objects.OpenRequest,
        now: float,
        secret: str = "",
    ) -> list[Effect]:
        """A client wants a session, or comes back for it.

        :param client: number of its connection.
        :param request: the client's request.
        :param now: seconds.
        :param secret: for its first connection to a slot; the request has its
            hash. It stays here.
        :returns: effects.
        """
        entry = self._by_request.get((request.project_id, request.request_id))
        if entry is None:
            entry = _Open(
                wish=Submit(request),
                gives_up_at_s=now + self._open_timeout_s,
                secret=secret,
            )
            self._add(entry)
        elif entry.cancel_reason in _TAKEN_BACK_BY_US:
            # The client has come back: keep the session if it still lives.
            entry.cancel_reason = None
            entry.gives_up_at_s = now + self._open_timeout_s
            entry.resend_s = FIRST_RESEND_S
            if entry.view is None:
                entry.wish, entry.asking = Submit(request), False
                entry.secret = secret
        self._attach(entry, client)
        if entry.view is None:
            return self._ask(entry)
        return self._present(entry, now)

    def reopen(self, client: int, lost: Reopen, now: float) -> list[Effect]:
        """A client's session lost its slot and needs another one.

        :param client: number of its connection.
        :param lost: the session and the lost generation.
        :param now: seconds.
        :returns: effects.
        """
        entry = self._by_session.get((lost.project_id, lost.session_id))
        if entry is None:
            entry = _Open(wish=lost, gives_up_at_s=now + self._open_timeout_s)
            self._add(entry)
        self._attach(entry, client)
        if entry.view is not None and _answers(lost, entry.view):
            return self._present(entry, now)
        if entry.wish != lost:
            entry.wish, entry.asking = lost, False
        entry.answered = False
        entry.cancel_reason = None
        entry.gives_up_at_s = now + self._open_timeout_s
        entry.resend_s = FIRST_RESEND_S
        return self._ask(entry)

    def may_report(
        self, client: int, project_id: str, session_id: str, now: float
    ) -> bool:
        """Whether a client may tell now how far it has computed itself.

        :param client: number of its connection.
        :param project_id: its project.
        :param session_id: its session.
        :param now: seconds.
        """
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
        return [entry.wish]

    def call_ended(self, wish: Wish, now: float) -> None:
        """A call has ended, and its result has been handled.

        :param wish: the call; it is made again if it is still open.
        :param now: seconds.
        """
        if isinstance(wish, Submit):
            request = wish.request
            key = request.project_id, request.request_id
            entry = self._by_request.get(key)
        else:
            entry = self._by_session.get((wish.project_id, wish.session_id))
        if entry is not None and entry.wish is wish:
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
            entry = self._by_request.get((project_id, request_id))
        else:
            entry = self._by_session.get((project_id, session_id or ""))
        if entry is None:
            return [Cancel(project_id, session_id, request_id, reason)]
        return self._cancel(entry, reason, now)

    def close(self, close: Close, now: float) -> list[Effect]:
        """A client has closed a session.

        The worker reports that to the conductor, too. The client's word is
        sent only if no such end is heard, as both the worker and its agent
        may die before their report.

        :param close: what the client says.
        :param now: seconds.
        :returns: effects.
        """
        entry = self._by_session.get((close.project_id, close.session_id))
        if entry is None:
            # An earlier agent opened it, or its end is known.
            return [] if close.confirmed else [close]
        entry.close = close
        self._detach(entry)
        self._mark_cancelled(entry, codes.CANCELLED_BY_CLIENT, now)
        entry.schedule(now)
        return [] if close.confirmed else [close]

    def client_gone(
        self, client: int, now: float, active: Iterable[str] = ()
    ) -> list[Effect]:
        """A client's connection ended, so its sessions have no client.

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
                # No client would come to the slot of a reopened session.
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
        """The conductor reported the state of a session.

        :param view: the session.
        :param now: seconds.
        :returns: effects.
        """
        key = view.project_id, view.request_id
        entry = self._by_request.get(key) or self._by_session.get(
            (view.project_id, view.session_id)
        )
        if entry is None:
            return []
        entry.heard_at_s = now
        if entry.view is not None and view.revision <= entry.view.revision:
            self.stale_views += 1
            return []
        entry.answered = entry.answered or _answers(entry.wish, view)
        entry.view = view
        self._add(entry)
        if self._is_over(entry, view):
            return self._finish(entry, view)
        if entry.close is not None and view.state in states.TERMINAL:
            # The conductor has not heard that the session was served.
            return self._repeat(entry, now)
        return self._present(entry, now)

    def _present(self, entry: _Open, now: float) -> list[Effect]:
        """Send a client the known state of its session.

        If the slot awaits another secret than the client's, ask for it again.
        """
        if entry.client is None:
            return []
        view = entry.shown()
        if view is not None:
            return [Push(entry.client, view)]
        if not entry.awaits_another():
            return []
        # The slot awaits the secret of an earlier agent, since the conductor
        # does not have this one's request yet.
        entry.answered = False
        entry.gives_up_at_s = now + self._open_timeout_s
        entry.resend_s = FIRST_RESEND_S
        return self._ask(entry)

    def _add(self, entry: _Open) -> None:
        """Index an entry by its known ids."""
        project_id = entry.project_id
        if entry not in self._opens:
            self._opens[entry] = None
            self._by_project[project_id] += 1
        for index, name in self._names(entry):
            if name:
                index[project_id, name] = entry

    def _names(
        self, entry: _Open
    ) -> tuple[tuple[dict[OpenKey, _Open], str], ...]:
        """Return the indexes, and the names of an entry in them."""
        return (
            (self._by_request, entry.request_id),
            (self._by_session, entry.session_id),
        )

    def polled(
        self,
        poll: Poll,
        changed: Iterable[objects.SessionView],
        unknown: Iterable[str],
        now: float,
    ) -> list[Effect]:
        """The conductor answered a poll.

        :param poll: the poll.
        :param changed: the sessions with news.
        :param unknown: ids of sessions that do not exist. The conductor
            records what it has once answered, so these are lost.
        :param now: seconds.
        :returns: effects.
        """
        effects: list[Effect] = []
        lost = frozenset(unknown)
        for project_id, session_id, _revision in poll.sessions:
            entry = self._by_session.get((project_id, session_id))
            if entry is None or entry.view is None:
                continue
            entry.heard_at_s = now
            if session_id in lost:
                effects += self._finish(
                    entry,
                    _lost(
                        entry.view,
                        codes.SESSION_NOT_FOUND,
                        "the conductor does not know the session",
                    ),
                )
        for view in changed:
            effects += self.heard(view, now)
        return effects

    def tick(self, now: float) -> list[Effect]:
        """Repeat, give up and poll whatever is due.

        :param now: seconds.
        :returns: effects.
        """
        effects: list[Effect] = []
        silent: list[tuple[str, str, int]] = []
        for entry in list(self._opens):
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
                silent.append(
                    (entry.project_id, view.session_id, view.revision)
                )
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

    @staticmethod
    def _gives_up(entry: _Open) -> bool:
        return not entry.answered or entry.cancel_reason is not None

    def _give_up(self, entry: _Open, now: float) -> list[Effect]:
        if entry.cancel_reason is not None and entry.view is not None:
            # A client that is still there hears of the session again when the
            # conductor is back.
            entry.cancel_reason = None
            if entry.client is None:
                self._forget(entry)
            return []
        view = _unanswered_view(entry)
        if entry.cancel_reason is not None or isinstance(entry.wish, Reopen):
            # A running session is not taken back: its client may ask again.
            return self._finish(entry, view)
        # The client of a request that was taken in before this agent started
        # may ask again, too. A cancellation already under way by then would
        # reach the returning conductor first.
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
            self._by_project[entry.project_id] -= 1
        for index, name in self._names(entry):
            # The name may belong to another entry by now.
            if index.get((entry.project_id, name)) is entry:
                del index[entry.project_id, name]
        self._detach(entry)


def _is_connected(entry: _Open, in_use: frozenset[str]) -> bool:
    view = entry.view
    return view is not None and (
        view.state not in states.UNCONNECTED or view.session_id in in_use
    )


def _answers(wish: Wish, view: objects.SessionView) -> bool:
    """Whether a wish has been fulfilled, or no longer can be."""
    if isinstance(wish, Submit):
        return True
    # News of the lost slot is no answer.
    return view.generation > wish.generation or (
        view.generation == wish.generation
        and (view.state == states.QUEUED or view.state in states.TERMINAL)
    )


def _may_be_in_use(entry: _Open) -> bool:
    """Whether the slot may have been in use all along.

    The worker reports its client's connection or orderly end through its
    agent and the conductor. A cancellation must not overtake that report,
    even where the slot is on this host.
    """
    return entry.view is not None and entry.view.state == states.READY


def _cancellation(entry: _Open, reason: str) -> Cancel | Close:
    return entry.close or Cancel(
        project_id=entry.project_id,
        session_id=None if entry.request_id else entry.session_id,
        request_id=entry.request_id or None,
        reason=reason,
    )


def _unanswered_view(entry: _Open) -> objects.SessionView:
    reason = codes.CONDUCTOR_UNAVAILABLE
    message = "the conductor did not answer in time"
    if isinstance(entry.wish, Submit):
        return objects.SessionView.rejected(
            entry.wish.request, reason, message
        )
    known = entry.view or objects.SessionView(
        session_id=entry.wish.session_id,
        request_id="",
        project_id=entry.project_id,
        state=states.LOST,
        accelerator="",
        claimed_bytes=0,
        generation=entry.wish.generation,
        host_uuid=entry.wish.host_uuid,
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
