# SPDX-License-Identifier: Apache-2.0

"""The Unix sockets by which programs of this host reach the pool.

One socket per project: who may open it acts for the project. All clients are
served by the agent's loop, so a client costs a descriptor and no thread. They
take turns there, behind all that the agent has to do by itself.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import fcntl
import functools
import itertools
import os
import queue
import socket
import stat
import struct
import termios
import time
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.agent import loop as agent_loop
from fpgapool.agent import opens
from fpgapool.agent import profiles
from fpgapool.agent import requests
from fpgapool.agent import sender
from fpgapool.common import ratelimit
from fpgapool.protocol import frames
from fpgapool.protocol import messages
from fpgapool.rpcapi import conductor as conductor_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules

LOG = logging.getLogger(__name__)

TICK_S = 0.25
BACKLOG = 512
RECEIVE_BYTES = 65536

#: A turn of the loop's: what one socket gets before all others get theirs.
ACCEPTS_PER_TURN = 16
MESSAGES_PER_TURN = 16

#: A client that leaves that much unread is not listening.
MAX_UNREAD_BYTES = 1 << 20

#: Of the clients of a project together; who has left most unread goes.
MAX_PROJECT_UNREAD_BYTES = 16 << 20

#: Connections to workers that a client has not received yet. Unread, they
#: keep descriptors: of this process, or of all that its user may have on
#: their way.
MAX_UNREAD_DESCRIPTORS = 16
MAX_PROJECT_UNREAD_DESCRIPTORS = 256

MAX_OPENS_PER_CLIENT = 1024

#: Of a request's id, if it is a text.
MAX_ID_LENGTH = 64

#: So much of the room for clients is for whoever comes first.
SCARCE_SHARE = 0.75

#: Questions of one client that the conductor has not answered yet.
MAX_QUESTIONS_PER_CLIENT = 64

#: How often a front door sees whether its sockets are still in their places.
CHECK_INTERVAL_S = 1.0

#: When the process has no descriptor left, new clients wait that long.
ACCEPT_PAUSE_S = 1.0

#: The kernel's limit of a Unix socket's path.
MAX_PATH_BYTES = 107

_CREDENTIALS = struct.Struct("3i")
_INT = struct.Struct("i")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FrontDoorSettings:
    """What a front door has to know.

    :param sockets: path of the socket of each project.
    :param socket_mode: permissions of the sockets.
    :param max_connections: over all sockets.
    :param max_project_connections: of one socket; 0 means an equal share of
        all.
    :param max_project_sessions: that clients of one socket wait for or use.
    :param open_timeout_s: until CONDUCTOR_UNAVAILABLE.
    :param session_poll_interval_s: silence after which a session is asked
        for.
    """

    host_uuid: str
    host_name: str
    sockets: Mapping[str, str]
    socket_mode: int = 0o660
    max_connections: int = 1000
    max_project_connections: int = 0
    max_project_sessions: int = 20000
    open_timeout_s: float = 10.0
    session_poll_interval_s: float = 5.0

    @property
    def connections_per_project(self) -> int:
        """How many clients of one project may be connected in any case."""
        share = self.max_connections // max(len(self.sockets), 1)
        return self.max_project_connections or max(share, 1)

    def may_exceed(self, connections: int) -> bool:
        """Whether a project may have more, as others leave their room.

        :param connections: of all projects, now.
        """
        is_scarce = connections >= self.max_connections * SCARCE_SHARE
        return not (self.max_project_connections or is_scarce)


class Slots(typing.Protocol):
    """What a front door asks of the host's slots."""

    def connect(
        self, project_id: str, session_id: str, generation: int
    ) -> socket.socket:
        """Return a connection to the data socket of a session's worker.

        :raises: rules.RequestError if the project has no such session
            here.
        """

    def sessions_in_use(self) -> Iterable[str]:
        """Return the ids of the sessions whose client has come."""


class FrontDoorError(Exception):
    """A front door's socket cannot be made."""


@dataclasses.dataclass(slots=True, eq=False)
class _Client:
    """One connection."""

    number: int
    sock: socket.socket
    project_id: str
    user_id: str
    decoder: messages.MessageDecoder
    #: Bytes, and the descriptors that go with the first of them.
    unsent: collections.deque[tuple[bytearray, list[int]]]
    unsent_bytes: int = 0
    questions: int = 0
    #: It waits for its turn.
    in_line: bool = False
    #: The decoder may have more messages than were served so far.
    behind: bool = False
    closed: bool = False


class FrontDoor:
    """The front door of one host.

    Everything but the constructor runs in the loop's thread.

    :param settings: sockets and limits.
    :param loop: serves the connections.
    :param conductor: the conductor's RPC interface.
    :param casts: sends casts.
    :param caller: makes calls.
    :param slots: the slots of this host.
    """

    def __init__(
        self,
        settings: FrontDoorSettings,
        loop: agent_loop.Loop,
        conductor: conductor_api.ConductorAPI,
        casts: sender.Sender,
        caller: sender.Caller,
        slots: Slots,
    ) -> None:
        self._settings = settings
        self._loop = loop
        self._conductor = conductor
        self._casts = casts
        self._caller = caller
        self._slots = slots
        #: For lines that clients cause.
        self._log = ratelimit.RateLimitedLog(__name__)
        self._profiles = profiles.ProfileCache(
            loop,
            caller,
            conductor.list_accelerators,
            limit_s=settings.open_timeout_s,
        )
        self._opens = opens.Opens(
            open_timeout_s=settings.open_timeout_s,
            poll_interval_s=settings.session_poll_interval_s,
        )
        self._listeners: dict[str, socket.socket] = {}
        self._inodes: dict[str, int] = {}
        self._clients: dict[int, _Client] = {}
        self._by_project: collections.Counter[str] = collections.Counter()
        self._unsent_bytes: collections.Counter[str] = collections.Counter()
        self._unread_descriptors: dict[str, collections.Counter[_Client]] = (
            collections.defaultdict(collections.Counter)
        )
        self._numbers = itertools.count(1)
        self._ticking = False
        self._polling = False
        self._polls_again_s = 0.0
        self._operations: dict[
            str, Callable[[_Client, object, requests.Members], None]
        ] = {
            "hello": self._hello,
            "accelerator": self._accelerator,
            "accelerators": self._accelerators,
            "open": self._open,
            "reopen": self._reopen,
            "get": self._get,
            "cancel": self._cancel,
            "connect": self._connect,
            "pool": self._pool,
        }

    # Life of the sockets.

    def start(self) -> None:
        """Make the sockets and serve them.

        :raises: FrontDoorError.
        """
        try:
            for project_id, path in self._settings.sockets.items():
                self._listen(project_id, path)
        except BaseException:
            self.stop()
            raise
        self._loop.call_later(CHECK_INTERVAL_S, self._check_sockets)

    def stop(self) -> None:
        """Close everything; clients find the next agent and go on there.

        No session is cancelled: the agent leaves, not its clients.
        """
        for path, listener in self._listeners.items():
            self._loop.unwatch(listener)
            listener.close()
            self._unlink(path)
        self._listeners.clear()
        for client in list(self._clients.values()):
            self._close(client)

    def _listen(self, project_id: str, path: str) -> None:
        _check_socket_path(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        fresh_path = f"{path}.new"
        try:
            _remove_stale(path)
            _remove_stale(fresh_path)
            # Nobody can connect before listen(), and the name appears when
            # the permissions are right.
            listener.bind(fresh_path)
            os.chmod(fresh_path, self._settings.socket_mode)
            listener.listen(BACKLOG)
            os.rename(fresh_path, path)
            self._inodes[path] = os.stat(path).st_ino
        except OSError as error:
            listener.close()
            raise FrontDoorError(f"front door {path}: {error}") from error
        listener.setblocking(False)
        self._listeners[path] = listener
        self._watch_listener(listener, project_id)
        LOG.info("Front door of project %s at %s", project_id, path)

    def _watch_listener(
        self, listener: socket.socket, project_id: str
    ) -> None:
        def ready(_events: int) -> None:
            self._loop.unwatch(listener)
            self._loop.call_in_turn(lambda: self._accept(listener, project_id))

        if listener in self._listeners.values():
            self._loop.watch(listener, agent_loop.READ, ready)

    def _check_sockets(self) -> None:
        """Make sockets again that were removed, as by a cleaning job."""
        if not self._listeners:
            return
        self._loop.call_later(CHECK_INTERVAL_S, self._check_sockets)
        for project_id, path in self._settings.sockets.items():
            if self._is_in_place(path):
                continue
            lost = self._listeners[path]
            self._log.warning("Front door %s is gone; it is made again", path)
            try:
                self._listen(project_id, path)
            except FrontDoorError as error:
                self._log.error("Front door is not made again: %s", error)
                continue
            self._loop.unwatch(lost)
            lost.close()

    def _is_in_place(self, path: str) -> bool:
        try:
            return os.stat(path).st_ino == self._inodes.get(path)
        except OSError:
            return False

    def _unlink(self, path: str) -> None:
        try:
            if self._is_in_place(path):
                os.unlink(path)
        except OSError as error:
            LOG.warning("Front door %s was not removed: %s", path, error)

    def _accept(self, listener: socket.socket, project_id: str) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, _address = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                break
            except OSError as error:
                if listener not in self._listeners.values():
                    return
                LOG.error("Front door cannot take clients: %s", error)
                self._loop.call_later(
                    ACCEPT_PAUSE_S,
                    lambda: self._watch_listener(listener, project_id),
                )
                return
            self._greet(sock, project_id)
        self._watch_listener(listener, project_id)

    def _greet(self, sock: socket.socket, project_id: str) -> None:
        sock.setblocking(False)
        client = _Client(
            number=next(self._numbers),
            sock=sock,
            project_id=project_id,
            user_id=_peer_uid(sock),
            decoder=messages.MessageDecoder(),
            unsent=collections.deque(),
        )
        refusal = self._refusal(project_id)
        self._clients[client.number] = client
        self._by_project[project_id] += 1
        if refusal is not None:
            self._fail(client, None, codes.TOO_MANY_CONNECTIONS, refusal)
            self._drop(client, "too many connections")
            return
        self._watch(client)

    def _refusal(self, project_id: str) -> str | None:
        """Return why there is no room for one more client, if so."""
        settings, count = self._settings, len(self._clients)
        own = self._by_project[project_id]
        if own >= settings.connections_per_project and not (
            settings.may_exceed(count)
        ):
            # Others have room of their own.
            return "the front door serves too many clients of this project"
        if count >= settings.max_connections:
            return "the front door serves too many clients already"
        return None

    # Bytes.

    def _watch(self, client: _Client) -> None:
        if client.in_line:
            return
        events = agent_loop.READ
        if client.unsent:
            events |= agent_loop.WRITE
        self._loop.watch(
            client.sock, events, functools.partial(self._ready, client)
        )

    def _ready(self, client: _Client, _events: int) -> None:
        if client.in_line:
            # Until its turn comes, it would be told again and again.
            self._loop.unwatch(client.sock)
        else:
            self._line_up(client)

    def _line_up(self, client: _Client) -> None:
        client.in_line = True
        self._loop.call_in_turn(functools.partial(self._take_turn, client))

    def _take_turn(self, client: _Client) -> None:
        if not client.closed:
            self._flush(client)
            self._receive(client)
        if client.closed:
            return
        if client.behind:
            self._line_up(client)
        else:
            client.in_line = False
            self._watch(client)

    def _receive(self, client: _Client) -> None:
        data = b""
        if not client.behind:
            try:
                data = client.sock.recv(RECEIVE_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                self._gone(client, str(error))
                return
            if not data:
                self._gone(client, "closed by the client")
                return
        try:
            received = client.decoder.feed(data, MESSAGES_PER_TURN)
        except frames.ProtocolError as error:
            self._log.warning(
                "Front door of project %s: connection of uid %s closed: %s",
                client.project_id,
                client.user_id,
                error,
            )
            self._gone(client, "malformed message")
            return
        client.behind = len(received) == MESSAGES_PER_TURN
        for message in received:
            if client.closed:
                return
            self._dispatch(client, message)

    def _dispatch(self, client: _Client, message: messages.Message) -> None:
        number = _repeatable(message.get("id"))
        operation = message.get("op")
        handler = (
            self._operations.get(operation)
            if isinstance(operation, str)
            else None
        )
        if handler is None:
            self._fail(
                client,
                number,
                codes.UNKNOWN_OPERATION,
                "the front door has no such operation",
            )
            return
        try:
            handler(client, number, message)
        except rules.RequestError as error:
            self._fail(client, number, error.code, error.message)
        except Exception:
            self._log.exception("Front door: operation %s failed", operation)
            self._fail(
                client, number, codes.INTERNAL_ERROR, "see the agent's log"
            )

    def _send(
        self,
        client: _Client,
        message: Mapping[str, object],
        fds: Iterable[int] = (),
    ) -> None:
        """Send a message, or keep it until the client reads.

        :param fds: descriptors to pass; closed when they are sent.
        """
        owned = list(fds)
        if client.closed:
            _close_fds(owned)
            return
        try:
            data = messages.encode(message)
        except ValueError as error:
            _close_fds(owned)
            LOG.error("Front door: an answer cannot be sent: %s", error)
            data = messages.encode(
                messages.error_reply(
                    message.get("id"),
                    codes.INTERNAL_ERROR,
                    "the answer is too large",
                )
            )
            owned = []
        if owned or not client.unsent or client.unsent[-1][1]:
            client.unsent.append((bytearray(data), owned))
        else:
            client.unsent[-1][0].extend(data)
        self._count_unsent(client, len(data))
        self._flush(client)
        if client.unsent_bytes > MAX_UNREAD_BYTES:
            self._hang_up_on(client)
        elif self._unsent_bytes[client.project_id] > MAX_PROJECT_UNREAD_BYTES:
            own = [
                one
                for one in self._clients.values()
                if one.project_id == client.project_id
            ]
            self._hang_up_on(max(own, key=lambda one: one.unsent_bytes))

    def _count_unsent(self, client: _Client, more_bytes: int) -> None:
        client.unsent_bytes += more_bytes
        self._unsent_bytes[client.project_id] += more_bytes

    def _hang_up_on(self, client: _Client) -> None:
        self._log.warning(
            "Front door of project %s: connection of uid %s closed: "
            "%d bytes were not read",
            client.project_id,
            client.user_id,
            client.unsent_bytes,
        )
        self._gone(client, "does not read")

    def _flush(self, client: _Client) -> None:
        try:
            while client.unsent:
                data, fds = client.unsent[0]
                sent_bytes = client.sock.sendmsg([data], _rights(fds))
                _close_fds(fds)
                self._count_unsent(client, -sent_bytes)
                del data[:sent_bytes]
                if not data:
                    client.unsent.popleft()
        except BlockingIOError:
            self._watch(client)
            return
        except OSError as error:
            # The reader's side ends the connection at its next turn, so a
            # caller in the middle of an operation still finds it here.
            LOG.debug("Front door: sending failed: %s", error)
            self._loop.call(lambda: self._gone(client, "sending failed"))
            return
        self._watch(client)

    def _gone(self, client: _Client, reason: str) -> None:
        if client.closed:
            return
        self._drop(client, reason)
        self._apply(
            self._opens.client_gone(
                client.number,
                self._loop.now(),
                self._slots.sessions_in_use(),
            )
        )

    def _drop(self, client: _Client, reason: str) -> None:
        LOG.debug("Front door: connection %d: %s", client.number, reason)
        self._close(client)

    def _close(self, client: _Client) -> None:
        client.closed = True
        if self._clients.pop(client.number, None) is not None:
            self._by_project[client.project_id] -= 1
        self._unread_descriptors[client.project_id].pop(client, None)
        self._count_unsent(client, -client.unsent_bytes)
        self._loop.unwatch(client.sock)
        client.sock.close()
        for _data, fds in client.unsent:
            _close_fds(fds)
        client.unsent.clear()

    def _reply(
        self, client: _Client, number: object, **members: object
    ) -> None:
        self._send(client, messages.reply(number, **members))

    def _fail(
        self, client: _Client, number: object, code: str, message: str
    ) -> None:
        self._send(client, messages.error_reply(number, code, message))

    def _unavailable(self, client: _Client, number: object) -> None:
        self._fail(
            client,
            number,
            codes.CONDUCTOR_UNAVAILABLE,
            "the conductor does not answer",
        )

    # Operations.

    def _hello(
        self, client: _Client, number: object, members: requests.Members
    ) -> None:
        version = members.get("version", messages.FRONT_DOOR_VERSION)
        if version != messages.FRONT_DOOR_VERSION:
            raise rules.RequestError(
                codes.INVALID_REQUEST,
                f"this front door speaks version "
                f"{messages.FRONT_DOOR_VERSION} only",
            )
        self._reply(
            client,
            number,
            host_uuid=self._settings.host_uuid,
            host_name=self._settings.host_name,
            version=messages.FRONT_DOOR_VERSION,
        )

    def _accelerator(
        self, client: _Client, number: object, members: requests.Members
    ) -> None:
        name = requests.accelerator(members, "name")
        project_id = client.project_id
        self._begin_question(client)

        def answer(known: profiles.Profiles | None) -> None:
            client.questions -= 1
            if known is None:
                self._unavailable(client, number)
                return
            profile = profiles.find(known, project_id, name)
            if profile is None:
                self._fail(
                    client,
                    number,
                    codes.UNKNOWN_ACCELERATOR,
                    f"there is no accelerator {name}",
                )
            else:
                self._reply(client, number, profile=_public(profile))

        self._profiles.ask(project_id, name, answer)

    def _accelerators(
        self, client: _Client, number: object, members: requests.Members
    ) -> None:
        self._begin_question(client)

        def answer(known: profiles.Profiles | None) -> None:
            client.questions -= 1
            if known is None:
                self._unavailable(client, number)
                return
            self._reply(
                client,
                number,
                accelerators=[
                    _public(profile)
                    for _, profile in sorted(known.items())
                    if profile.is_for(client.project_id)
                ],
            )

        self._profiles.ask(client.project_id, None, answer)

    def _open(
        self, client: _Client, number: object, members: requests.Members
    ) -> None:
        request = requests.open_request(
            members,
            project_id=client.project_id,
            user_id=client.user_id,
            host_uuid=self._settings.host_uuid,
            expires_at=time.time() + self._settings.open_timeout_s,
        )
        self._check_quota(client, request_id=request.request_id)
        # The answer goes first, so that events follow it.
        self._reply(client, number, session_id=None)
        if not client.closed:
            self._apply(
                self._opens.open(client.number, request, self._loop.now())
            )

    def _reopen(
        self, client: _Client, number: object, members: requests.Members
    ) -> None:
        lost = opens.CastReopen(
            client.project_id,
            requests.session_id(members),
            requests.generation(members),
        )
        self._check_quota(client, session_id=lost.session_id)
        # As for open: events follow the answer.
        self._reply(client, number)
        if not client.closed:
            self._apply(
                self._opens.reopen(
                    client.number,
                    self._settings.host_uuid,
                    lost,
                    self._loop.now(),
                )
            )

    def _check_quota(self, client: _Client, **ids: str) -> None:
        """Check that a client may have one more session.

        :param ids: of the session or of its request.
        :raises rules.RequestError: if it may not.
        """
        if self._opens.count(client.number) >= MAX_OPENS_PER_CLIENT:
            raise rules.RequestError(
                codes.QUOTA_EXCEEDED,
                f"one connection may open {MAX_OPENS_PER_CLIENT} sessions",
            )
        if self._opens.is_counted(client.project_id, **ids):
            # It has come back for one.
            return
        most = self._settings.max_project_sessions
        if self._opens.count_of_project(client.project_id) >= most:
            raise rules.RequestError(
                codes.QUOTA_EXCEEDED,
                f"programs of a project on one host may have {most} sessions"
                " under way",
            )

    @staticmethod
    def _begin_question(client: _Client) -> None:
        if client.questions >= MAX_QUESTIONS_PER_CLIENT:
            raise rules.RequestError(
                codes.RATE_LIMITED,
                f"{MAX_QUESTIONS_PER_CLIENT} questions of this connection are"
                " not answered yet",
            )
        client.questions += 1

    def _get(
        self, client: _Client, number: object, members: requests.Members
    ) -> None:
        session_id = requests.session_id(members)
        known = self._opens.view(client.project_id, session_id)
        if known is not None:
            self._reply(client, number, session=_view_members(known.public()))
            return

        def answer(views: list[objects.SessionView]) -> None:
            for view in views:
                if (view.session_id, view.project_id) == (
                    session_id,
                    client.project_id,
                ):
                    session = _view_members(view.public())
                    self._reply(client, number, session=session)
                    return
            self._fail(
                client,
                number,
                codes.SESSION_NOT_FOUND,
                "there is no such session",
            )

        self._call(
            client,
            number,
            lambda: self._conductor.get_sessions([session_id]),
            answer,
        )

    def _cancel(
        self, client: _Client, number: object, members: requests.Members
    ) -> None:
        session_id, request_id = requests.cancel_target(members)
        self._apply(
            self._opens.cancel(
                client.project_id,
                session_id,
                request_id,
                codes.CANCELLED_BY_CLIENT,
                self._loop.now(),
            )
        )
        self._reply(client, number)

    def _connect(
        self, client: _Client, number: object, members: requests.Members
    ) -> None:
        session_id = requests.session_id(members)
        generation = requests.generation(members)
        unread = self._unread_descriptors[client.project_id]
        _check_descriptors(client, unread)
        sock = self._slots.connect(client.project_id, session_id, generation)
        unread[client] += 1
        self._send(client, messages.reply(number), [sock.detach()])

    def _pool(
        self, client: _Client, number: object, members: requests.Members
    ) -> None:
        self._call(
            client,
            number,
            self._conductor.pool_summary,
            lambda summary: self._reply(client, number, summary=summary),
        )

    def _call(
        self,
        client: _Client,
        number: object,
        call: Callable[[], typing.Any],
        on_result: Callable[[typing.Any], None],
    ) -> None:
        def answered(result: typing.Any) -> None:
            client.questions -= 1
            on_result(result)

        def failed(error: Exception) -> None:
            client.questions -= 1
            if isinstance(error, queue.Full):
                # Not a line for each: somebody asks too much.
                LOG.debug("A question was left out")
            else:
                self._log.warning("The conductor did not answer: %s", error)
            self._unavailable(client, number)

        self._begin_question(client)
        self._caller.submit(
            call,
            answered,
            failed,
            limit_s=self._settings.open_timeout_s,
            lane=client.project_id,
        )

    # Sessions.

    def session_changed(self, views: Iterable[objects.SessionView]) -> None:
        """Take what the conductor says about sessions.

        :param views: the sessions.
        """
        now = self._loop.now()
        for view in views:
            self._apply(self._opens.heard(view, now))

    def _apply(self, effects: Iterable[opens.Effect]) -> None:
        for effect in effects:
            self._execute(effect)
        if len(self._opens) and not self._ticking:
            self._ticking = True
            self._loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._ticking = False
        if not self._listeners:
            return
        effects = self._opens.tick(self._loop.now())
        if any(
            isinstance(effect, opens.CastOpen | opens.CastReopen)
            for effect in effects
        ):
            # What is asked for again was not answered.
            self._conductor.forget_leader()
        self._apply(effects)

    def _execute(self, effect: opens.Effect) -> None:
        conductor = self._conductor
        match effect:
            case opens.Push(number, view):
                self._push(number, view)
            case opens.CastOpen(request):
                self._casts.put(
                    ("open", request.project_id, request.request_id),
                    lambda: conductor.open_session(request),
                    lane=request.project_id,
                )
            case opens.CastReopen(project_id, lost_id, generation):
                self._casts.put(
                    ("reopen", project_id, lost_id),
                    lambda: conductor.reopen_session(
                        project_id,
                        session_id=lost_id,
                        generation=generation,
                        host_uuid=self._settings.host_uuid,
                    ),
                    lane=project_id,
                )
            case opens.CastCancel(project_id, session_id, request_id, reason):
                # The key is that of the open, which it makes void.
                self._casts.put(
                    ("open", project_id, request_id or session_id),
                    lambda: conductor.cancel_session(
                        project_id,
                        session_id=session_id,
                        request_id=request_id,
                        reason=reason,
                    ),
                    lane=project_id,
                )
            case opens.CastRenew(project_id, session_id):
                self._casts.put(
                    ("renew", session_id),
                    lambda: conductor.renew_secret(session_id),
                    lane=project_id,
                )
            case opens.Poll(revisions):
                self._poll(dict(revisions))

    def _push(self, number: int, view: objects.SessionView) -> None:
        client = self._clients.get(number)
        if client is None:
            return
        self._send(
            client,
            messages.notification("session", session=_view_members(view)),
        )

    def _poll(self, revisions: dict[str, int]) -> None:
        if self._polling or self._loop.now() < self._polls_again_s:
            return
        self._polling = True

        def answered(
            answer: tuple[list[objects.SessionView], list[str]],
        ) -> None:
            self._polling = False
            changed, unknown = answer
            now = self._loop.now()
            others = {view.session_id for view in changed}.union(unknown)
            self._opens.unchanged(revisions.keys() - others, now)
            self.session_changed(changed)
            self._apply(self._opens.absent(unknown, now))

        def failed(error: Exception) -> None:
            self._polling = False
            # A conductor that refuses does so at once, and every agent asks.
            self._polls_again_s = (
                self._loop.now() + self._settings.session_poll_interval_s
            )
            LOG.warning("Sessions could not be asked for: %s", error)

        self._caller.submit(
            lambda: self._conductor.changed_sessions(revisions),
            answered,
            failed,
        )


def _repeatable(number: object) -> int | str | None:
    """Return a request's id, if every answer has room for it."""
    if isinstance(number, str) and len(number) > MAX_ID_LENGTH:
        return None
    return number if isinstance(number, int | str) else None


def _view_members(view: objects.SessionView) -> dict[str, object]:
    # asdict() would copy all that it finds.
    endpoints = list(map(dataclasses.asdict, view.endpoints))
    return {**vars(view), "endpoints": endpoints}


def _rights(fds: list[int]) -> list[tuple[int, int, bytes]]:
    if not fds:
        return []
    return [
        (
            socket.SOL_SOCKET,
            socket.SCM_RIGHTS,
            array.array("i", fds).tobytes(),
        )
    ]


def _check_descriptors(
    client: _Client, unread: collections.Counter[_Client]
) -> None:
    """Check that a client may be sent one more descriptor.

    :param unread: how many the project's clients may not have received yet;
        those that have read all are removed.
    :raises rules.RequestError: if it may not (RATE_LIMITED).
    """
    for one in list(unread):
        if not one.unsent and not _unread_bytes(one.sock):
            del unread[one]
    for count, most, whose in (
        (unread[client], MAX_UNREAD_DESCRIPTORS, "this connection"),
        (unread.total(), MAX_PROJECT_UNREAD_DESCRIPTORS, "this project"),
    ):
        if count >= most:
            raise rules.RequestError(
                codes.RATE_LIMITED,
                f"{whose} has not received {count} connections to workers "
                "yet; read the answers first",
            )


def _unread_bytes(sock: socket.socket) -> int:
    """Return what was sent and waits for the other end to read it.

    The kernel counts its own overhead, too.
    """
    answer = fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(_INT.size))
    count: int = _INT.unpack(answer)[0]
    return count


def _close_fds(fds: list[int]) -> None:
    while fds:
        os.close(fds.pop())


def _public(profile: objects.AcceleratorProfile) -> dict[str, object]:
    """Return what a client may know of an accelerator that it may use."""
    members = dataclasses.asdict(profile)
    # Who else may is not its business.
    del members["projects"]
    return members


def _peer_uid(sock: socket.socket) -> str:
    credentials = sock.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
    )
    return str(_CREDENTIALS.unpack(credentials)[1])


def _check_socket_path(path: str) -> None:
    # ".new" is added while the socket is being made.
    if len(os.fsencode(path)) + len(".new") > MAX_PATH_BYTES:
        raise FrontDoorError(
            f"front door {path}: the path is longer than "
            f"{MAX_PATH_BYTES - len('.new')} bytes"
        )


def _remove_stale(path: str) -> None:
    """Remove a socket that nobody listens to.

    :raises: FrontDoorError if it is in use or is no socket.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FrontDoorError(f"front door {path}: a file is in the way")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except BlockingIOError:
            # Its backlog is full, so somebody listens.
            LOG.debug("Front door %s is busy", path)
    raise FrontDoorError(f"front door {path}: another process serves it")
