# SPDX-License-Identifier: Apache-2.0

"""The Unix sockets through which programs on this host reach the pool.

Each project has one socket. A program with access to it acts for the project.
The agent's loop serves all clients, so a client needs a file descriptor but no
thread. The loop does the agent's own work first, then serves clients in turn.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import fcntl
import functools
import itertools
import os
import socket
import stat
import struct
import termios
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool.agent import loop as agent_loop
from fpgapool.agent import settings as agent_settings
from fpgapool.common.channels import channel
from fpgapool.common.channels import descriptors
from fpgapool.common.messaging import codec
from fpgapool.common.messaging import context
from fpgapool.common.monitoring import ratelimit
from fpgapool.protocol import frames
from fpgapool.protocol import messages
from fpgapool.vocabulary import carriers
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules

LOG = logging.getLogger(__name__)

BACKLOG = 512
RECEIVE_BYTES = 65536

#: Limits for one socket per turn, so that the others get their turns.
ACCEPTS_PER_TURN = 16
MESSAGES_PER_TURN = 16

#: A client that has more unread bytes than this is disconnected.
MAX_UNREAD_BYTES = 1 << 20

#: Limit for the unread bytes of all of a project's clients; above it, the
#: client with the most is disconnected.
MAX_PROJECT_UNREAD_BYTES = 16 << 20

#: Limits for connections to workers that clients have not received yet: these
#: count against the descriptor limits of this process and its user.
MAX_UNREAD_DESCRIPTORS = 16
MAX_PROJECT_UNREAD_DESCRIPTORS = 256

#: While fewer clients than this share of the limit are connected, a project
#: may have more than its own share.
SCARCE_SHARE = 0.75

#: Interval at which a front door checks that its sockets still exist.
CHECK_INTERVAL_S = 1.0

#: Pause after a client was not accepted, for example for lack of descriptors.
ACCEPT_PAUSE_S = 1.0

#: Limits for the log lines about refused requests and failed sessions of a
#: project.
LINES_PER_S = 10.0
LINES_AT_ONCE = 200

#: Suffix of a socket's path until the socket is ready.
NEW_SUFFIX = ".new"

_INT = struct.Struct("i")


class FrontDoorError(Exception):
    """A socket of a front door cannot be created."""


@dataclasses.dataclass(slots=True, eq=False)
class Client:
    """A client's connection."""

    number: int
    sock: socket.socket
    project_id: str
    user_id: str
    decoder: messages.MessageDecoder
    #: Bytes to send, with the descriptors to pass with the first of them.
    unsent: collections.deque[tuple[bytearray, list[int]]]
    unsent_bytes: int = 0
    questions: int = 0
    #: Whether the client is waiting for its turn.
    in_line: bool = False
    #: Whether the decoder may hold unhandled messages.
    behind: bool = False
    #: Whether session notifications to it may include connections to workers.
    takes_connections: bool = False
    closed: bool = False


@dataclasses.dataclass(eq=False)
class Doorway:
    """The sockets of one host, and their clients.

    Everything except the constructor runs in the loop's thread.

    :param on_gone: called when a client's connection has ended.
    """

    settings: agent_settings.AgentSettings
    loop: agent_loop.Loop
    on_message: Callable[[Client, messages.Message], None]
    on_gone: Callable[[Client], None]

    def __post_init__(self) -> None:
        #: Limits the rate of log lines that clients cause.
        self._log = ratelimit.RateLimitedLog(__name__)
        self._listeners: dict[str, socket.socket] = {}
        self._inodes: dict[str, int] = {}
        self._clients: dict[int, Client] = {}
        self._by_project: collections.Counter[str] = collections.Counter()
        self._unsent_bytes: collections.Counter[str] = collections.Counter()
        self._unread_descriptors: dict[str, collections.Counter[Client]] = (
            collections.defaultdict(collections.Counter)
        )
        self._numbers = itertools.count(1)
        self._lines = ratelimit.Limiter(LINES_PER_S, LINES_AT_ONCE)

    @property
    def is_open(self) -> bool:
        """Whether clients are served."""
        return bool(self._listeners)

    def may_log(self, project_id: str) -> bool:
        """Count a log line that a project causes; whether it may."""
        return not self._lines.wait_s(project_id)

    @property
    def client_count(self) -> int:
        return len(self._clients)

    def client(self, number: int) -> Client | None:
        return self._clients.get(number)

    # Opening and closing the sockets.

    def start(self) -> None:
        try:
            for project_id, path in self.settings.front_door_sockets.items():
                self._listen(project_id, path)
        except BaseException:
            self.stop()
            raise
        self.loop.call_later(CHECK_INTERVAL_S, self._check_sockets)

    def stop(self) -> None:
        """Close everything, but cancel no sessions: clients will reconnect."""
        for path, listener in self._listeners.items():
            self.loop.unwatch(listener)
            listener.close()
            self._unlink(path)
        self._listeners.clear()
        for client in list(self._clients.values()):
            self._close(client)

    def _listen(self, project_id: str, path: str) -> None:
        _check_socket_path(path)
        fresh_path = f"{path}{NEW_SUFFIX}"
        try:
            _remove_stale(path)
            _remove_stale(fresh_path)
            with contextlib.ExitStack() as unless_it_listens:
                listener = unless_it_listens.enter_context(
                    socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                )
                # No client can connect before listen(), and the final name
                # appears only once the permissions are right.
                listener.bind(fresh_path)
                os.chmod(fresh_path, self.settings.front_door_mode)
                listener.listen(BACKLOG)
                os.rename(fresh_path, path)
                self._inodes[path] = os.stat(path).st_ino
                unless_it_listens.pop_all()
        except OSError as error:
            raise FrontDoorError(
                f"cannot create front door {path}: {error}"
            ) from error
        listener.setblocking(False)
        self._listeners[path] = listener
        self._watch_listener(listener, project_id)
        LOG.info("Opened front door of project %s at %s", project_id, path)

    def _watch_listener(
        self, listener: socket.socket, project_id: str
    ) -> None:
        def ready(_events: int) -> None:
            self.loop.unwatch(listener)
            self.loop.call_in_turn(lambda: self._accept(listener, project_id))

        if listener in self._listeners.values():
            self.loop.watch(listener, agent_loop.READ, ready)

    def _check_sockets(self) -> None:
        """Recreate sockets that were removed, for example by a cleanup job."""
        if not self._listeners:
            return
        self.loop.call_later(CHECK_INTERVAL_S, self._check_sockets)
        for project_id, path in self.settings.front_door_sockets.items():
            if self._is_in_place(path):
                continue
            lost = self._listeners[path]
            self._log.warning(
                "Socket %s of the front door was removed; recreating it", path
            )
            try:
                self._listen(project_id, path)
            except FrontDoorError as error:
                self._log.error("Cannot recreate a front door: %s", error)
                continue
            self.loop.unwatch(lost)
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
            LOG.warning("Cannot remove front door %s: %s", path, error)

    def _accept(self, listener: socket.socket, project_id: str) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, _address = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                break
            except OSError as error:
                if listener not in self._listeners.values():
                    return
                self._log.error("Cannot accept front door clients: %s", error)
                self.loop.call_later(
                    ACCEPT_PAUSE_S,
                    lambda: self._watch_listener(listener, project_id),
                )
                return
            self._greet(sock, project_id)
        self._watch_listener(listener, project_id)

    def _greet(self, sock: socket.socket, project_id: str) -> None:
        sock.setblocking(False)
        client = Client(
            number=next(self._numbers),
            sock=sock,
            project_id=project_id,
            user_id=str(descriptors.peer(sock)[1]),
            decoder=messages.MessageDecoder(codec.decode_json),
            unsent=collections.deque(),
        )
        refusal = self._refusal(project_id)
        self._clients[client.number] = client
        self._by_project[project_id] += 1
        if refusal is not None:
            self.fail(client, None, codes.TOO_MANY_CONNECTIONS, refusal)
            self._close(client)
            return
        self._watch(client)

    def _refusal(self, project_id: str) -> str | None:
        """Return why another client is refused, or None if it is accepted."""
        settings, count = self.settings, len(self._clients)
        most = settings.max_front_door_connections
        most_of_project = settings.max_front_door_project_connections
        share = most_of_project or max(
            most // max(len(settings.front_door_sockets), 1), 1
        )
        is_scarce = count >= most * SCARCE_SHARE
        if self._by_project[project_id] >= share and (
            most_of_project or is_scarce
        ):
            # Other projects keep their share.
            return "this project has too many connected clients on this host"
        if count >= most:
            return "this host has too many connected clients"
        return None

    def fail(
        self, client: Client, number: object, code: str, message: str
    ) -> None:
        """Answer a request, or greet a client, with an error."""
        self.send(client, messages.error_reply(number, code, message))

    # Bytes.

    def _watch(self, client: Client) -> None:
        if client.in_line:
            return
        events = agent_loop.READ
        if client.unsent:
            events |= agent_loop.WRITE
        self.loop.watch(
            client.sock, events, functools.partial(self._ready, client)
        )

    def _ready(self, client: Client, _events: int) -> None:
        if client.in_line:
            # Do not report the socket again before the client's turn.
            self.loop.unwatch(client.sock)
        else:
            self._line_up(client)

    def _line_up(self, client: Client) -> None:
        client.in_line = True
        self.loop.call_in_turn(functools.partial(self._take_turn, client))

    def _take_turn(self, client: Client) -> None:
        if not client.closed:
            if client.unsent:
                self._flush(client)
            self._receive(client)
        if client.closed:
            return
        if client.behind:
            self._line_up(client)
        else:
            client.in_line = False
            self._watch(client)

    def _receive(self, client: Client) -> None:
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
            self.on_message(client, message)

    def send(
        self,
        client: Client,
        message: Mapping[str, object],
        fds: Iterable[int] = (),
    ) -> None:
        """Send a message, or queue it until the client reads.

        :param fds: descriptors to pass; they are closed once sent.
        """
        owned = list(fds)
        if client.closed:
            channel.close_fds(owned)
            return
        try:
            data = messages.encode(message)
        except ValueError as error:
            channel.close_fds(owned)
            self._log.error("Front door: cannot send a response: %s", error)
            data = messages.encode(
                messages.error_reply(
                    message.get("id"),
                    codes.FRAME_TOO_LARGE,
                    f"the response is larger than {messages.MAX_MESSAGE_BYTES}"
                    " bytes; use the REST API instead",
                )
            )
            owned = []
        if owned or not client.unsent or client.unsent[-1][1]:
            client.unsent.append((bytearray(data), owned))
        else:
            client.unsent[-1][0].extend(data)
        self._count_unsent(client, len(data))
        if owned:
            self._unread_descriptors[client.project_id][client] += 1
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

    def check_descriptors(self, client: Client) -> None:
        """Check that a client may receive one more descriptor.

        :raises rules.RequestError: RATE_LIMITED.
        """
        # Forget the descriptors that clients have received in the meantime.
        unread = self._unread_descriptors[client.project_id]
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
                    f"{whose} has {count} unread answers with connections to "
                    "workers; read them first",
                )

    def _count_unsent(self, client: Client, more_bytes: int) -> None:
        client.unsent_bytes += more_bytes
        self._unsent_bytes[client.project_id] += more_bytes

    def _hang_up_on(self, client: Client) -> None:
        self._log.warning(
            "Front door of project %s: connection of uid %s closed, because "
            "it left %d bytes unread",
            client.project_id,
            client.user_id,
            client.unsent_bytes,
        )
        self._gone(client, "does not read")

    def _flush(self, client: Client) -> None:
        try:
            while client.unsent:
                data, fds = client.unsent[0]
                sent_bytes = client.sock.sendmsg([data], channel.rights(fds))
                channel.close_fds(fds)
                fds.clear()
                self._count_unsent(client, -sent_bytes)
                del data[:sent_bytes]
                if not data:
                    client.unsent.popleft()
        except BlockingIOError:
            self._watch(client)
        except OSError as error:
            # Close the connection later, because the caller may still need the
            # client to finish its operation.
            LOG.debug("Front door: sending failed: %s", error)
            self.loop.call(lambda: self._gone(client, "sending failed"))

    def _gone(self, client: Client, reason: str) -> None:
        if not client.closed:
            LOG.debug("Front door: connection %d: %s", client.number, reason)
            self._close(client)
            self.on_gone(client)

    def _close(self, client: Client) -> None:
        client.closed = True
        if self._clients.pop(client.number, None) is not None:
            self._by_project[client.project_id] -= 1
        self._unread_descriptors[client.project_id].pop(client, None)
        self._count_unsent(client, -client.unsent_bytes)
        self.loop.unwatch(client.sock)
        client.sock.close()
        for _data, fds in client.unsent:
            channel.close_fds(fds)
        client.unsent.clear()


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A client's request, which gets one answer."""

    doorway: Doorway
    client: Client
    number: object
    members: Mapping[str, object]

    def about(self) -> contextlib.AbstractContextManager[None]:
        """Make the log lines of a block show the request."""
        return context.serving(
            carriers.request_id(self.members.get("request_id")),
            carriers.valid(self.members.get("carrier")),
        )

    def reply(self, **members: object) -> None:
        self.doorway.send(self.client, messages.reply(self.number, **members))

    def fail(self, code: str, message: str) -> None:
        client = self.client
        if self.doorway.may_log(client.project_id):
            with self.about():
                LOG.info(
                    "Front door: %.40r by uid %s of project %s refused: %s",
                    self.members.get("op"),
                    client.user_id,
                    client.project_id,
                    code,
                )
        self.doorway.fail(client, self.number, code, message)


def _unread_bytes(sock: socket.socket) -> int:
    """Return the number of sent bytes that the other end has not read.

    The kernel counts its own overhead, too.
    """
    answer = fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(_INT.size))
    count: int = _INT.unpack(answer)[0]
    return count


def _check_socket_path(path: str) -> None:
    if len(os.fsencode(path)) + len(NEW_SUFFIX) > channel.MAX_UNIX_PATH_BYTES:
        raise FrontDoorError(
            f"front door {path}: the path is longer than "
            f"{channel.MAX_UNIX_PATH_BYTES - len(NEW_SUFFIX)} bytes"
        )


def _remove_stale(path: str) -> None:
    """Remove a socket on which no process listens.

    :raises: FrontDoorError if it is in use or is not a socket.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FrontDoorError(
            f"front door {path}: the path exists and is not a socket"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except BlockingIOError:
            # The backlog is full, so a process is listening.
            LOG.debug("Front door %s is busy", path)
    raise FrontDoorError(f"front door {path}: another process is serving it")
