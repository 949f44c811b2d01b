# SPDX-License-Identifier: Apache-2.0

"""Requests that wait until a session changes."""

from __future__ import annotations

import collections
import dataclasses
import threading
import time
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from typing import NamedTuple
from typing import Protocol

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.common import exception

LOG = logging.getLogger(__name__)

#: Returns the revisions of those sessions that exist.
Question = Callable[[Iterable[str]], Mapping[str, int]]


#: Called with sessions that have changed.
Changed = Callable[[Iterable[objects.SessionView]], None]


class Source(Protocol):
    """Tells of changes of sessions; see :mod:`fpgapool.api.backends.news`."""

    def start(self, changed: Changed) -> None:
        """Start to listen; later calls do nothing."""

    def stop(self) -> None:
        """Stop listening."""


class TooManyWaiters(Exception):
    """No further request may wait."""


class Change(NamedTuple):
    """A session has changed.

    :ivar view: the session, as its project sees it; None if there was no news
        of the change.
    """

    view: objects.SessionView | None = None


@dataclasses.dataclass(eq=False, slots=True)
class _Waiter:
    session_id: str
    revision: int
    done: threading.Event
    place: int | None
    project_id: str
    change: Change | None = None
    failure: Exception | None = None


class Waiters:
    """Waits for many sessions, until there is news of a change.

    News may be lost, and is not sent for all sessions, so one query for all
    sessions looks for changes from time to time. The thread that sends the
    queries exists only while requests wait, so a web server may fork after
    creating this.

    :param max_waiters: maximum number of requests that wait at the same time.
    :param interval_s: time between queries.
    :param news: what is listened to from the first wait on; None: nothing.
    """

    def __init__(
        self,
        ask: Question,
        *,
        max_waiters: int,
        interval_s: float,
        news: Source | None = None,
    ) -> None:
        self._ask = ask
        self._max_waiters = max_waiters
        self._interval_s = interval_s
        self._source = news
        # Recent news with the time, the newest at the end: a request may
        # start to wait just after the news has arrived.
        self._news: dict[str, tuple[objects.SessionView, float]] = {}
        self._lock = threading.Lock()
        # Dicts, because they keep the order of arrival.
        self._waiters: dict[_Waiter, None] = {}
        self._by_session: dict[str, dict[_Waiter, None]] = {}
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def wait(
        self,
        session_id: str,
        revision: int,
        limit_s: float,
        *,
        place: int | None = 0,
        project_id: str = "",
    ) -> Change | None:
        """Wait until a session has a later revision.

        If too many requests wait, one must make room: it belongs to the
        project with the most requests.

        :param place: rank within the project; the request with the highest
            place is the first to make room. None: the request waits in any
            case, and never makes room.
        :returns: None if the session has not changed in time or no longer
            exists, or if the request had to make room.
        :raises TooManyWaiters: if this request would have to make room.
        :raises: the query's errors.
        """
        waiter = _Waiter(
            session_id, revision, threading.Event(), place, project_id
        )
        if self._source is not None:
            self._source.start(self.changed)
        self._add(waiter)
        try:
            waiter.done.wait(limit_s)
        finally:
            with self._lock:
                self._remove(waiter)
        if waiter.failure is not None:
            raise waiter.failure
        return waiter.change

    def changed(self, views: Iterable[objects.SessionView]) -> None:
        """Wake the requests that wait for these sessions."""
        now_s = time.monotonic()
        with self._lock:
            for view in views:
                name = view.session_id
                known, _ = self._news.pop(name, (view, now_s))
                if known.revision > view.revision:
                    # Threads may read messages in another order.
                    view = known
                self._news[name] = view, now_s
                for waiter in self._by_session.get(name, ()):
                    if view.revision > waiter.revision:
                        waiter.change = Change(view)
                        waiter.done.set()
            while self._news:
                oldest = next(iter(self._news))
                if self._is_recent(self._news[oldest][1], now_s):
                    break
                del self._news[oldest]

    def _is_recent(self, heard_s: float, now_s: float) -> bool:
        return now_s < heard_s + self._interval_s

    @property
    def count(self) -> int:
        """The number of waiting requests."""
        with self._lock:
            return len(self._waiters)

    def close(self) -> None:
        """End all waits and the thread."""
        self._closing.set()
        with self._lock:
            thread = self._thread
            for waiter in self._waiters:
                waiter.done.set()
        if self._source is not None:
            self._source.stop()
        if thread is not None:
            thread.join()

    def _add(self, waiter: _Waiter) -> None:
        with self._lock:
            if self._closing.is_set():
                raise TooManyWaiters
            if (view := self._news_for(waiter)) is not None:
                waiter.change = Change(view)
                waiter.done.set()
                return
            if waiter.place is not None:
                self._make_room(waiter, waiter.place)
            self._waiters[waiter] = None
            self._by_session.setdefault(waiter.session_id, {})[waiter] = None
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="waiters", daemon=True
                )
                self._thread.start()

    def _news_for(self, waiter: _Waiter) -> objects.SessionView | None:
        """Return recent news that the request does not know."""
        view, heard_s = self._news.get(waiter.session_id, (None, 0.0))
        if (
            view is not None
            and view.revision > waiter.revision
            and self._is_recent(heard_s, time.monotonic())
        ):
            return view
        return None

    def _remove(self, waiter: _Waiter) -> None:
        if waiter not in self._waiters:
            return
        del self._waiters[waiter]
        same = self._by_session[waiter.session_id]
        del same[waiter]
        if not same:
            del self._by_session[waiter.session_id]

    def _make_room(self, waiter: _Waiter, place: int) -> None:
        if len(self._waiters) < self._max_waiters:
            return
        places = {
            one: one.place for one in self._waiters if one.place is not None
        }
        if len(places) < self._max_waiters:
            return
        counts = collections.Counter(one.project_id for one in places)
        own = counts[waiter.project_id] + 1
        most = max(counts.values(), default=0)
        if most > own:
            # Even if it makes room, that project has no fewer requests than
            # the new request's project.
            crowd = [w for w in places if counts[w.project_id] == most]
            last = max(crowd, key=places.__getitem__)
        else:
            mine = [w for w in places if counts[w.project_id] >= own]
            mine += [w for w in places if w.project_id == waiter.project_id]
            if not mine:
                raise TooManyWaiters
            last = max(mine, key=places.__getitem__)
            if places[last] <= place:
                raise TooManyWaiters
        self._remove(last)
        last.done.set()

    def _run(self) -> None:
        while known := self._known():
            self._ask_for(known)
            self._closing.wait(self._interval_s)

    def _known(self) -> frozenset[str]:
        """Return the sessions to query; if there are none, the thread ends."""
        with self._lock:
            if self._closing.is_set() or not self._waiters:
                self._thread = None
                return frozenset()
            return frozenset(one.session_id for one in self._waiters)

    def _ask_for(self, known: Collection[str]) -> None:
        try:
            revisions = self._ask(known)
        except exception.FpgapoolException as error:
            LOG.warning(
                "Requests that wait for sessions fail, because their revisions"
                " cannot be read: %s",
                error,
            )
            self._fail(error)
        except Exception as error:
            LOG.exception(
                "Requests that wait for sessions fail, because their revisions"
                " cannot be read"
            )
            self._fail(error)
        else:
            self._wake(known, revisions)

    def _fail(self, error: Exception) -> None:
        with self._lock:
            for waiter in self._waiters:
                waiter.failure = error
                waiter.done.set()

    def _wake(
        self, known: Collection[str], revisions: Mapping[str, int]
    ) -> None:
        with self._lock:
            for waiter in self._waiters:
                name = waiter.session_id
                if revisions.get(name, -1) > waiter.revision:
                    waiter.change = waiter.change or Change()
                    waiter.done.set()
                elif name in known and name not in revisions:
                    waiter.done.set()
