# SPDX-License-Identifier: Apache-2.0

"""The front door of the client's own host, reached over a Unix socket."""

from __future__ import annotations

import collections
import contextlib
import hashlib
import os
import random
import secrets
import socket
import stat
import threading
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.client import cancel as cancelling
from fpgapool.client import errors
from fpgapool.client.doors import door as doors
from fpgapool.common.channels import channel
from fpgapool.common.channels import waits
from fpgapool.protocol import frames
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules

ENVIRONMENT_VARIABLE = "FPGAPOOL_SOCKET"
SYSTEM_PATH = "/run/fpgapool/front-door.sock"

_RECEIVE_BYTES = 64 * 1024
# Cancelling a session at the front door is optional, because the pool also
# notices that the client is gone.
_CANCEL_TIMEOUT_S = 2.0
# How long to retry reporting a close that no worker has confirmed, while the
# agent is being restarted.
_CLOSE_PATIENCE_S = 10.0
_FIRST_CANCEL_PAUSE_S = 0.1
_LONGEST_CANCEL_PAUSE_S = 0.5
_NOBODY_LISTENS = (BrokenPipeError, ConnectionResetError)


def candidate_paths() -> list[str]:
    """Return the conventional front door paths, most trusted first."""
    paths = [SYSTEM_PATH, f"/tmp/fpgapool-{os.getuid()}/front-door.sock"]
    runtime_dir = os.environ.get("XDG_RUNTIME_DIR")
    if runtime_dir:
        paths.insert(0, f"{runtime_dir}/fpgapool/front-door.sock")
    return paths


def default_path() -> str:
    """Find the front door.

    :returns: the path in ``FPGAPOOL_SOCKET``, else the first conventional
        path with a socket that other users cannot have put there.
    :raises errors.FrontDoorUnavailable: if there is none; ``places`` says
        why each path was rejected.
    """
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    if named:
        return named
    refusals = []
    for path in candidate_paths():
        refusal = _refusal_of(path)
        if refusal is None:
            return path
        refusals.append(refusal)
    raise errors.no_pool(refusals)


def _refusal_of(path: str) -> errors.Place | None:
    """Return why a path must not be used; None if it may be.

    Programs send keys to the worker that the front door names, so another
    user must not be able to provide the front door.
    """
    directory = os.path.dirname(path)
    try:
        # lstat(), because in /tmp any user can create a symbolic link.
        found = os.lstat(directory)
        mode = os.stat(path).st_mode
    except OSError as exc:
        missing = isinstance(exc, FileNotFoundError)
        return errors.Place(path, str(exc.strerror), not missing)
    why = None
    if not stat.S_ISDIR(found.st_mode):
        why = "is a symbolic link or not a directory"
    elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        why = "is writable by its group or by all users"
    # The system's directory is safe: only root can create it.
    elif path != SYSTEM_PATH and found.st_uid not in (0, os.getuid()):
        why = "belongs to another user"
    if why is not None:
        return errors.Place(directory, why, notable=True)
    if not stat.S_ISSOCK(mode):
        return errors.Place(path, "is not a socket", notable=True)
    return None


def _absence(path: str, exc: Exception) -> str:
    """Return why there is no connection, and what to do if that is clear."""
    if path == os.environ.get(ENVIRONMENT_VARIABLE) and not os.path.exists(
        path
    ):
        return (
            f"{ENVIRONMENT_VARIABLE} names {path}, which does not exist; start"
            " fpgapool-allinone, or unset it"
        )
    return str(exc)


class FrontDoor(doors.Door):
    """A connection to the front door.

    :raises errors.FrontDoorUnavailable: if no process listens there.
    """

    def __init__(
        self,
        path: str,
        cancel: cancelling.CancelToken,
        deadline_s: float | None = None,
        origin: doors.Origin | None = None,
    ) -> None:
        self.path = path
        self._origin = origin or doors.Origin.new()
        self._cancel = cancel
        self._lock = threading.Lock()
        self._messages: collections.deque[messages.Message] = (
            collections.deque()
        )
        self._events: collections.deque[messages.Message] = collections.deque()
        self._fds: list[int] = []
        # The connection received with a READY notification: session,
        # generation and descriptor.
        self._brought: tuple[object, object, int] | None = None
        self._last_number = 0
        #: Number of connections made.
        self.connections = 0
        self._buffer = memoryview(bytearray(_RECEIVE_BYTES))
        self._unwanted = threading.Event()
        self._channel: channel.PlainChannel | None = None
        cancel.attach(self)
        try:
            self._connect(deadline_s)
        except BaseException:
            cancel.detach(self)
            raise

    @errors.needing_descriptors()
    def _connect(self, deadline_s: float | None) -> None:
        self._decoder = messages.MessageDecoder()
        try:
            # _pause lets a caller abandon the wait if the front door hangs.
            sock = channel.connect_unix(self.path, deadline_s, self._pause)
        except channel.DeadlineExceeded as exc:
            raise errors.OperationTimeout(str(exc)) from exc
        except (channel.ChannelClosed, ValueError) as exc:
            error = errors.FrontDoorUnavailable(_absence(self.path, exc))
            if not self.connections:
                errors.unreached(error)
            raise error from exc
        self._channel = channel.PlainChannel(sock)
        self.connections += 1
        # A concurrent shutdown() may have seen only the old connection.
        self._check()

    def _pause(self, seconds: float) -> None:
        waits.for_event(self._unwanted, seconds)
        self._check()

    def _check(self) -> None:
        if self._unwanted.is_set():
            self._hang_up()
            self._cancel.check()
            raise errors.FrontDoorUnavailable("this program stopped waiting")

    def reconnect(self, deadline_s: float | None = None) -> None:
        with self._lock:
            self._hang_up()
            self._messages.clear()
            self._events.clear()
            self._connect(deadline_s)

    def request_all(
        self,
        requests: Sequence[tuple[str, Mapping[str, object]]],
        deadline_s: float | None = None,
    ) -> list[messages.Message]:
        with self._lock:
            return self._request_all(requests, deadline_s)

    def request_connection(
        self, session_id: str, generation: int, deadline_s: float | None
    ) -> socket.socket:
        with self._lock:
            brought = self._brought
            if brought and brought[:2] == (session_id, generation):
                self._brought = None
                return socket.socket(fileno=brought[2])
            self._drop_brought()
        return self._request_socket(
            "connect",
            deadline_s,
            {"session_id": session_id, "generation": generation},
        )

    def attach_group(
        self, name: str, accelerator: str | None, deadline_s: float | None
    ) -> messages.Message:
        secret = secrets.token_hex(rules.SECRET_BYTES)
        client = self.request(
            "attach_group",
            deadline_s,
            name=name,
            # The secret itself is sent to desks only.
            secret_sha256=hashlib.sha256(secret.encode()).hexdigest(),
        )
        return {**client, "secret": secret}

    def request_desk(
        self, group_id: str, deadline_s: float | None
    ) -> socket.socket:
        """Request a connection to a group's desk on this host."""
        return self._request_socket(
            "connect_group", deadline_s, {"group_id": group_id}
        )

    def _request_socket(
        self,
        operation: str,
        deadline_s: float | None,
        members: dict[str, object],
    ) -> socket.socket:
        with self._lock:
            self._request_all([(operation, members)], deadline_s)
            return socket.socket(fileno=self._next_fd())

    def _next_fd(self) -> int:
        """Return the oldest unused descriptor that was received."""
        if not self._fds:
            raise doors.ConnectionLost("the front door provided no connection")
        return self._fds.pop(0)

    def _request_all(
        self,
        requests: Sequence[tuple[str, Mapping[str, object]]],
        deadline_s: float | None,
    ) -> list[messages.Message]:
        first_number = self._last_number + 1
        self._last_number += len(requests)
        numbers = range(first_number, first_number + len(requests))
        about = self._origin.members
        data = b"".join(
            messages.encode(
                messages.request(number, operation, **{**about, **members})
            )
            for number, (operation, members) in zip(
                numbers, requests, strict=True
            )
        )
        replies: dict[int, messages.Message] = {}
        with self._translated():
            self._send(data, deadline_s)
            while len(replies) < len(requests):
                message = self._next_message(deadline_s)
                number = message.get("id")
                if "event" in message:
                    self._events.append(message)
                elif isinstance(number, int) and number in numbers:
                    replies[number] = message
        ordered = [replies[number] for number in numbers]
        for reply in ordered:
            if reply.get("ok") is not True:
                raise _error_of(reply)
        return ordered

    def _send(self, data: bytes, deadline_s: float | None) -> None:
        try:
            self._channel.send(data, deadline_s=deadline_s)
        except channel.ChannelClosed as exc:
            # If the client was refused, sending may fail on a closed socket
            # while the reason can still be read. If not, reading fails, too.
            if not isinstance(exc.__cause__, _NOBODY_LISTENS):
                raise

    def next_event(self, deadline_s: float | None = None) -> messages.Message:
        with self._lock, self._translated():
            while not self._events:
                message = self._next_message(deadline_s)
                if "event" in message:
                    self._events.append(message)
            return self._events.popleft()

    def discard_events(self) -> None:
        with self._lock:
            self._events.clear()

    def _next_message(self, deadline_s: float | None) -> messages.Message:
        while not self._messages:
            received_bytes, fds = self._channel.recv_with_fds(
                self._buffer, channel.MAX_FDS, deadline_s
            )
            self._fds += fds
            self._messages.extend(
                self._decoder.feed(self._buffer[:received_bytes])
            )
        message = self._messages.popleft()
        if message.get("ok") is False and message.get("id") is None:
            # The front door refused the connection itself, which now ends.
            raise doors.TurnedAway(_error_of(message))
        if message.get("connection") is True:
            self._drop_brought()
            view = message.get("session")
            members = view if isinstance(view, dict) else {}
            self._brought = (
                members.get("session_id"),
                members.get("generation"),
                self._next_fd(),
            )
        return message

    def _drop_brought(self) -> None:
        if self._brought is not None:
            os.close(self._brought[2])
            self._brought = None

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            with errors.needing_descriptors():
                yield
        except channel.DeadlineExceeded as exc:
            self._cancel.check()
            raise errors.OperationTimeout(
                "the front door did not respond in time"
            ) from exc
        except channel.ChannelClosed as exc:
            self._cancel.check()
            raise doors.ConnectionLost(str(exc)) from exc
        except frames.ProtocolError as exc:
            raise doors.ConnectionLost(str(exc)) from exc

    def give_up(self, **members: object) -> None:
        deadline_s = channel.deadline_after(_CANCEL_TIMEOUT_S)
        self._request_elsewhere("cancel", members, deadline_s, patient=False)

    def report_close(
        self, closed: doors.Closed, deadline_s: float | None
    ) -> None:
        confirmed = closed["confirmed"]
        if confirmed and self._send_unanswered("close", closed, deadline_s):
            return
        limit_s = channel.deadline_after(_CLOSE_PATIENCE_S)
        self._request_elsewhere(
            "close",
            closed,
            limit_s if deadline_s is None else min(limit_s, deadline_s),
            patient=not confirmed,
        )

    def _send_unanswered(
        self,
        operation: str,
        members: Mapping[str, object],
        deadline_s: float | None,
    ) -> bool:
        """Send a request, ignoring its reply; return whether it was sent."""
        with self._lock:
            self._last_number += 1
            members = {**self._origin.members, **members}
            message = messages.request(self._last_number, operation, **members)
            try:
                self._channel.send(
                    messages.encode(message), deadline_s=deadline_s
                )
            except (channel.ChannelClosed, channel.DeadlineExceeded):
                return False
        return True

    def _request_elsewhere(
        self,
        operation: str,
        members: Mapping[str, object],
        deadline_s: float,
        *,
        patient: bool,
    ) -> None:
        """Send a request on a separate connection; never raises.

        :param patient: whether to wait for a front door that is unavailable.
        """
        pause_s = _FIRST_CANCEL_PAUSE_S
        while channel.remaining_s(deadline_s):
            # Use a separate token: the session's may already be cancelled.
            token = cancelling.CancelToken()
            try:
                other = FrontDoor(self.path, token, deadline_s, self._origin)
                try:
                    other.request(operation, deadline_s, **members)
                    return
                finally:
                    other.close()
            except doors.TurnedAway:
                # The front door is full, perhaps because of this object's own
                # connection. Shutting it down cancels its requests, but not
                # those of an earlier connection.
                self.shutdown()
            except (errors.FrontDoorUnavailable, doors.ConnectionLost):
                if not patient:
                    return
            except (errors.FpgapoolError, OSError):
                return
            # Pause for a random time, because other clients also retry now.
            waits.pause(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, _LONGEST_CANCEL_PAUSE_S)

    def shutdown(self) -> None:
        self._unwanted.set()
        connected = self._channel
        if connected is not None:
            connected.shutdown()

    def close(self) -> None:
        self._cancel.detach(self)
        self._hang_up()

    def _hang_up(self) -> None:
        if self._channel is not None:
            self._channel.close()
        channel.close_fds(self._fds)
        self._fds = []
        self._drop_brought()


def _error_of(message: messages.Message) -> errors.FpgapoolError:
    error = message.get("error")
    if not isinstance(error, dict):
        error = {}
    return errors.rejection(
        str(error.get("code", codes.PROTOCOL_ERROR)),
        str(error.get("message", "the front door gave no reason")),
    )
