# SPDX-License-Identifier: Apache-2.0

"""The door to the pool's REST API.

It is for programs that do not run on the pool's hosts, for example in a VM.
Only requests use the API; data goes directly to the slot's worker.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import functools
import socket
import time
import typing
import urllib.parse
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import ClassVar

from fpgapool.client import cancel as cancelling
from fpgapool.client import errors
from fpgapool.client.doors import apirequests
from fpgapool.client.doors import door as doors
from fpgapool.client.doors import view as views
from fpgapool.common.channels import channel
from fpgapool.common.channels import waits
from fpgapool.protocol import frames
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import states

_GIVE_UP_S = 5.0
# If a response arrives sooner than this, the API did not wait.
_SHORTEST_S = 0.1
# The pool may learn from the worker that a session has ended only after it has
# received the program's next request; this is the maximum delay.
_END_LAG_S = 5.0

# The last sessions that this process ended, and when.
_ended: collections.deque[tuple[str, float]] = collections.deque(maxlen=16)

# The version since which the API has the pool in numbers and in pages.
_PAGES_SINCE = (1, 1)
#: The first version that tells the ranges of expected waits.
_RANGES_SINCE = (1, 1)
#: The first version that tells how to connect to a slot whose holder is about
#: to leave.
_SUCCESSORS_SINCE = (1, 3)
#: The first version whose dry runs tell of budgets.
_BUDGETS_SINCE = (1, 3)

_Document: typing.TypeAlias = apirequests.Document


def _wanted(members: _Document) -> tuple[_Document, tuple[int, int]]:
    """Return a request for the API, and the oldest version that accepts it."""
    wanted = {
        "accelerator": members["accelerator"],
        "claimed_bytes": members["size_bytes"],
    }
    given = [
        option
        for option in description.FIELDS.options
        if members.get(option.name) is not None
    ]
    wanted |= {option.name: members[option.name] for option in given}
    return wanted, max((option.since for option in given), default=(1, 0))


class ApiDoor(doors.Door):
    """One request's connection to the API.

    :raises errors.RequestRejected: if the API rejects the credentials.
    :raises errors.InvalidRequest: code ``TLS_REQUIRED``; nothing was sent.
    """

    def __init__(
        self,
        adapter: Any,
        cancel: cancelling.CancelToken,
        deadline_s: float | None = None,
        origin: doors.Origin | None = None,
        *,
        require_tls: bool = False,
    ) -> None:
        self._cancel = cancel
        self._requests = apirequests.Requests(
            adapter,
            cancel,
            (origin or doors.Origin.new()).headers,
            require_tls=require_tls,
        )
        self._session_id: str | None = None
        self._revision = -1
        self._events: collections.deque[messages.Message] = collections.deque()
        self._poll: concurrent.futures.Future[_Document] | None = None
        # Whether the API waits for changes: that takes a thread of this
        # process for as long, and a waiter has few.
        self._waits = waits.current() is None
        #: Number of connections made.
        self.connections = 0
        try:
            self._connect(deadline_s)
        except BaseException:
            self._requests.close()
            raise

    def _connect(self, deadline_s: float | None) -> None:
        self._requests.connect(deadline_s)
        self.connections += 1

    def reconnect(self, deadline_s: float | None = None) -> None:
        self.discard_events()
        self._connect(deadline_s)

    def request_all(
        self,
        requests: Sequence[tuple[str, Mapping[str, object]]],
        deadline_s: float | None = None,
    ) -> list[messages.Message]:
        replies = []
        for operation, members in requests:
            if operation not in self._OPERATIONS:
                raise errors.RequestRejected(
                    codes.UNKNOWN_OPERATION,
                    f"the API does not support {operation}",
                )
            perform = self._OPERATIONS[operation]
            replies.append(perform(self, deadline_s, {**members}))
        return replies

    def request_connection(
        self, session_id: str, generation: int, deadline_s: float | None
    ) -> socket.socket:
        raise errors.RequestRejected(
            codes.UNKNOWN_OPERATION,
            "only a host's own front door can provide connections",
        )

    def next_event(self, deadline_s: float | None = None) -> messages.Message:
        while not self._events:
            if self._poll is None:
                self._poll = self._requests.begin(self._await_news)
            poll = self._poll
            try:
                session = self._requests.wait_for(poll, deadline_s)
            finally:
                if poll.done():
                    self._poll = None
            if not self._waits and session["revision"] == self._revision:
                left_s = channel.remaining_s(deadline_s)
                pause_s = _pause_s(session)
                waits.pause(
                    pause_s if left_s is None else min(pause_s, left_s)
                )
                self._cancel.check()
            else:
                self._add_event(session)
        return self._events.popleft()

    def discard_events(self) -> None:
        self._events.clear()
        self._poll = None
        self._revision = -1

    def give_up(self, **members: object) -> None:
        deadline_s = channel.deadline_after(_GIVE_UP_S)
        with contextlib.suppress(errors.FpgapoolError, doors.ConnectionLost):
            known = members.get("session_id") or self._session_id
            if known is not None:
                session_ids = [str(known)]
            else:
                # The request may have been sent, but no response arrived.
                session_ids = self._find(members["request_id"], deadline_s)
            for session_id in session_ids:
                self._delete(f"/sessions/{session_id}", deadline_s)

    def report_close(
        self, closed: doors.Closed, deadline_s: float | None
    ) -> None:
        if closed["confirmed"]:
            # The worker reports it.
            return
        path = (
            f"/sessions/{closed['session_id']}"
            f"?generation={closed['generation']}"
            f"&input_bytes={closed['input_bytes']}"
            f"&output_bytes={closed['output_bytes']}"
        )
        with contextlib.suppress(errors.FpgapoolError, doors.ConnectionLost):
            self._delete(path, deadline_s)

    def _delete(self, path: str, deadline_s: float | None) -> None:
        """Delete, even if the request was cancelled."""
        waits.offload(
            functools.partial(self._requests.http, "DELETE", path, deadline_s)
        )

    def _find(self, request_id: object, deadline_s: float | None) -> list[str]:
        name = urllib.parse.quote(str(request_id))
        found = waits.offload(
            functools.partial(
                self._requests.http,
                "GET",
                f"/sessions?request_id={name}",
                deadline_s,
            )
        )
        return [session["id"] for session in found["sessions"]]

    def shutdown(self) -> None:
        self._requests.shutdown()

    def close(self) -> None:
        self._requests.close()
        if self._session_id is not None:
            _ended.append((self._session_id, time.monotonic()))

    def attach_group(
        self, name: str, accelerator: str | None, deadline_s: float | None
    ) -> messages.Message:
        group = self._find_group(name, deadline_s)
        if accelerator is not None:
            doors.check_accelerator(accelerator, group["accelerator"])
        client = self._post_client(group["id"], deadline_s)["client"]
        return {
            **client,
            "client_id": client["id"],
            "group_id": group["id"],
            "accelerator": group["accelerator"],
        }

    def _find_group(self, name: str, deadline_s: float | None) -> _Document:
        quoted = urllib.parse.quote(name, safe="")
        found = self._requests.ask("GET", f"/groups?name={quoted}", deadline_s)
        named: list[_Document] = found["groups"]
        if not named:
            # The name may be an ID.
            found = self._requests.ask("GET", f"/groups/{quoted}", deadline_s)
            named = [found["group"]]
        if len(named) > 1:
            # Shared groups of other projects may have the same name.
            raise errors.invalid(
                f"{len(named)} groups are named {name}; use the group's ID"
            )
        return named[0]

    def _post_client(
        self, group_id: str, deadline_s: float | None
    ) -> _Document:
        """Attach as a client; if the response comes too late, detach again."""

        def end(posting: concurrent.futures.Future[_Document]) -> None:
            if posting.exception() is None:
                client_id = posting.result()["client"]["id"]
                limit_s = channel.deadline_after(_GIVE_UP_S)
                ids = {"group_id": group_id, "client_id": client_id}
                with contextlib.suppress(
                    errors.FpgapoolError, doors.ConnectionLost
                ):
                    self._detach_group(limit_s, ids)

        posting = self._requests.begin(
            lambda: self._requests.http(
                "POST",
                f"/groups/{group_id}/clients",
                deadline_s,
                pause=self._cancel.wait,
            )
        )
        try:
            return self._requests.wait_for(posting, deadline_s)
        except BaseException:
            posting.add_done_callback(end)
            raise

    # Operations.

    def _detach_group(
        self, deadline_s: float | None, members: _Document
    ) -> messages.Message:
        # ended=true means that the program left, not that it was revoked.
        path = f"{_client_path(members)}?ended=true"
        self._requests.http("DELETE", path, deadline_s)
        return {}

    def _group(
        self, deadline_s: float | None, members: _Document
    ) -> messages.Message:
        """Return this client of a group, with the group's hosts."""
        found = self._requests.ask("GET", _client_path(members), deadline_s)
        client: messages.Message = found["client"]
        return client

    def _accelerator(
        self, deadline_s: float | None, members: _Document
    ) -> messages.Message:
        name = urllib.parse.quote(members["name"], safe="")
        try:
            found = self._requests.ask(
                "GET", f"/accelerators/{name}", deadline_s
            )
        except errors.RequestRejected as exc:
            if exc.code == codes.ACCELERATOR_NOT_FOUND:
                raise errors.RequestRejected(
                    codes.UNKNOWN_ACCELERATOR, exc.message
                ) from None
            raise
        return {"profile": found["accelerator"]}

    def _accelerators(
        self, deadline_s: float | None, members: _Document
    ) -> messages.Message:
        found: list[_Document] = []
        path = "/accelerators"
        while True:
            answer = self._requests.ask("GET", path, deadline_s)
            found += answer["accelerators"]
            if not answer.get("accelerators_links"):
                return {"accelerators": found}
            marker = urllib.parse.quote(found[-1]["name"], safe="")
            path = f"/accelerators?marker={marker}"

    def _pool(
        self, deadline_s: float | None, members: _Document
    ) -> messages.Message:
        """Return the pool in numbers, or a page of its hosts.

        APIs of release 1.0.0 return all hosts instead.
        """
        self._requests.use_version(_PAGES_SINCE)
        try:
            if "after" in members:
                return self._pool_hosts(deadline_s, members["after"])
            answer = self._requests.ask("GET", "/pool", deadline_s)
        except errors.RequestRejected as exc:
            if exc.code != codes.VERSION_NOT_ACCEPTABLE:
                raise
            self._requests.use_version((1, 0))
            answer = self._requests.ask("GET", "/pool", deadline_s)
        return {"summary": answer["pool"]}

    def _pool_hosts(
        self, deadline_s: float | None, after: str
    ) -> messages.Message:
        path = "/pool/hosts?sort_key=uuid"
        if after:
            path += f"&marker={urllib.parse.quote(after, safe='')}"
        answer = self._requests.ask("GET", path, deadline_s)
        page = {"summary": {"hosts": answer["hosts"]}}
        if not answer.get("hosts_links"):
            return page
        return {**page, "next": answer["hosts"][-1]["uuid"]}

    def _open(
        self, deadline_s: float | None, members: _Document
    ) -> messages.Message:
        wanted, since = _wanted(members)
        wanted["request_id"] = members["request_id"]
        self._requests.use_version(since, _SUCCESSORS_SINCE)
        submit = functools.partial(
            self._requests.ask, "POST", "/sessions", session=wanted
        )
        try:
            answer = submit(deadline_s)
        except errors.RequestRejected as exc:
            if exc.code != codes.INSTANCE_SESSION_LIMIT or (
                not self._ends_are_heard(deadline_s)
            ):
                raise
            answer = submit(deadline_s)
        self._session_id = answer["session"]["id"]
        self._add_event(answer["session"])
        return {}

    def _dry_run(
        self, deadline_s: float | None, members: _Document
    ) -> messages.Message:
        wanted, since = _wanted(members)
        self._requests.use_version(since, _BUDGETS_SINCE)
        answer = self._requests.ask(
            "POST", "/sessions?dry_run=true", deadline_s, session=wanted
        )
        found: messages.Message = answer["dry_run"]
        reasons = found["reasons"]
        return {
            **found,
            "reasons": [one["code"] for one in reasons],
            "message": " ".join(one["message"] for one in reasons),
        }

    def _ends_are_heard(self, deadline_s: float | None) -> bool:
        """Wait until the pool has noticed that recent sessions have ended.

        :returns: whether the pool may have refused a session because it had
            not noticed the end of another.
        """
        now_s = time.monotonic()
        recent = [
            (session_id, ended_s + _END_LAG_S)
            for session_id, ended_s in _ended.copy()
            if now_s < ended_s + _END_LAG_S
        ]
        for session_id, until_s in recent:
            while time.monotonic() < until_s and (
                not self._is_over(session_id, deadline_s)
            ):
                self._cancel.wait(apirequests.LEAST_PAUSE_S)
        return bool(recent)

    def _is_over(self, session_id: str, deadline_s: float | None) -> bool:
        try:
            session = self._show(session_id, deadline_s)
        except errors.RequestRejected:
            # The session belonged to another pool or another user.
            return True
        return session["state"] in states.TERMINAL

    def _get(
        self, deadline_s: float | None, members: _Document
    ) -> messages.Message:
        session = self._show(members["session_id"], deadline_s)
        return {"session": _view(session)}

    def _show(self, session_id: str, deadline_s: float | None) -> _Document:
        answer = self._requests.ask(
            "GET", f"/sessions/{session_id}", deadline_s
        )
        session: _Document = answer["session"]
        return session

    def _reopen(
        self, deadline_s: float | None, members: _Document
    ) -> messages.Message:
        session_id = self._session_id = members["session_id"]
        try:
            self._requests.ask(
                "POST",
                f"/sessions/{session_id}/reopen",
                deadline_s,
                reopen={"generation": members["generation"]},
            )
        except errors.RequestRejected as exc:
            if exc.code != codes.SESSION_CLOSED:
                raise
            found = _view(self._show(session_id, deadline_s))
            # Its notification says why it has ended, if not by that loss.
            if found.state not in states.TERMINAL or (
                found.reason in codes.REOPENABLE
            ):
                raise
        return {}

    _OPERATIONS: ClassVar[
        dict[
            str, Callable[[ApiDoor, float | None, _Document], messages.Message]
        ]
    ] = {
        "accelerator": _accelerator,
        "accelerators": _accelerators,
        "detach_group": _detach_group,
        "dry_run": _dry_run,
        "get": _get,
        "group": _group,
        # Versions of the API that do not know sets refuse them.
        "hello": lambda _door, _deadline_s, _members: {"sets": True},
        "open": _open,
        "pool": _pool,
        "reopen": _reopen,
    }

    # Notifications.

    def _await_news(self) -> _Document:
        """Return the session once it has changed, or after a time limit."""
        started_s = time.monotonic()
        path = f"/sessions/{self._session_id}"
        if self._revision >= 0 and self._waits:
            # Without a revision, the API returns the current state at once.
            path += f"?wait_s={apirequests.POLL_S:g}&revision={self._revision}"
        answer = self._requests.http(
            "GET",
            path,
            channel.deadline_after(apirequests.POLL_S + apirequests.REQUEST_S),
        )
        session: _Document = answer["session"]
        took_s = time.monotonic() - started_s
        if not self._waits:
            return session
        if session["revision"] == self._revision and took_s < _SHORTEST_S:
            # The API did not wait, because too many requests are waiting.
            time.sleep(_pause_s(session))
        return session

    def _add_event(self, session: _Document) -> None:
        """Turn a session's description into a notification."""
        self._revision = session["revision"]
        view = _view(session)
        # After a conductor restart, the secret arrives only later.
        if view.state != states.READY or view.secret:
            self._events.append({"event": "session", "session": view})


def _client_path(members: _Document) -> str:
    return f"/groups/{members['group_id']}/clients/{members['client_id']}"


def _pause_s(session: _Document) -> float:
    """Return how long to pause if the API does not wait."""
    part_s = (session.get("expected_wait_s") or 0.0) / 4
    return max(
        apirequests.LEAST_PAUSE_S, min(part_s, apirequests.LONGEST_PAUSE_S)
    )


def _view(session: _Document) -> views.SessionView:
    """Return the view of a session.

    :raises errors.SessionFailed: if a member has the wrong type.
    """
    try:
        return views.SessionView.from_api(session)
    except frames.ProtocolError as exc:
        raise errors.SessionFailed(exc.code, exc.message) from exc
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise errors.RequestRejected(
            codes.PROTOCOL_ERROR,
            f"the pool's API sent an invalid session: {exc}",
        ) from exc
