# SPDX-License-Identifier: Apache-2.0

"""Blocking byte channels over sockets, for clients, agents and workers.

This module needs only the standard library and is cheap to import. One thread
may read a channel while several write; :meth:`Channel.shutdown` may be called
from any thread and wakes all of them.

Deadlines are absolute values of :func:`time.monotonic`; ``None`` waits without
limit. Functions that wait raise ChannelClosed if the connection is lost or
ends, and DeadlineExceeded if the deadline passes first; bytes received so far
are then lost.
"""

from __future__ import annotations

import abc
import array
import collections.abc
import contextlib
import errno
import functools
import os
import select
import socket
import threading
import time
import typing

from fpgapool.common.channels import waits
from fpgapool.protocol import frames

#: Descriptors that one message may carry.
MAX_FDS = 8

# Maximum number of bytes to receive together with a header. They are copied a
# second time.
_AHEAD_BYTES = 16 * 1024
# A plain integer: computing with the socket module's enums is slow.
_TRUNCATED = int(socket.MSG_CTRUNC)
_SOCKET_BUFFER_BYTES = 4 * 1024 * 1024
# poll() takes its milliseconds as a C int.
_LONGEST_POLL_S = 1e6
# First and longest pause before retrying to connect when the backlog is full.
_FIRST_BACKLOG_PAUSE_S = 0.05
_LONGEST_BACKLOG_PAUSE_S = 1.0
_KEEPALIVE_IDLE_S = 5
_KEEPALIVE_INTERVAL_S = 5
_KEEPALIVE_PROBES = 3
# TCP drops the connection if data stays unacknowledged for this long.
_TCP_USER_TIMEOUT_MS = 20_000


class ChannelClosed(ConnectionError):
    """The peer closed the connection, or it was lost or shut down."""


class ChannelEnded(ChannelClosed):
    """The peer has finished sending; it may still receive."""


class DeadlineExceeded(TimeoutError):
    """The deadline passed; the position within the stream is unknown."""


def deadline_after(timeout_s: float | None) -> float | None:
    """Convert a duration into a deadline."""
    return None if timeout_s is None else time.monotonic() + timeout_s


def remaining_s(deadline_s: float | None) -> float | None:
    """Return the seconds until a deadline, at least 0; None without one."""
    if deadline_s is None:
        return None
    return max(0.0, deadline_s - time.monotonic())


def wait_ready(fd: int, events: int, deadline_s: float | None = None) -> None:
    """Wait until a descriptor is ready, has failed, or was hung up.

    :param events: bitmask of ``select.POLLIN`` and ``select.POLLOUT``.
    """
    if fd < 0:
        raise ChannelClosed("the channel is closed")
    waiter = waits.current()
    if waiter is not None:
        if not waiter.ready(fd, events, remaining_s(deadline_s)):
            raise DeadlineExceeded("deadline passed")
        return
    poller = select.poll()
    poller.register(fd, events)
    while True:
        left_s = remaining_s(deadline_s)
        if left_s is None:
            timeout_ms = None
        else:
            # Round up: a timeout of 0 would make the last millisecond a busy
            # loop.
            timeout_ms = int(min(left_s, _LONGEST_POLL_S) * 1000) + 1
        if poller.poll(timeout_ms):
            return
        if left_s is not None and left_s < _LONGEST_POLL_S:
            raise DeadlineExceeded("deadline passed")


class Link(typing.Protocol):
    """Carries frames to and from a worker, local or remote.

    Has the methods of :class:`Channel`.
    """

    def send(
        self, *parts: frames.Buffer, deadline_s: float | None = None
    ) -> None:
        """Send buffers as one uninterrupted sequence of bytes."""

    def recv_exact_into(
        self, buffer: memoryview, deadline_s: float | None = None
    ) -> None:
        """Fill a buffer."""

    def recv_small_into(
        self, buffer: memoryview, deadline_s: float | None = None
    ) -> None:
        """Fill a small buffer."""

    def shutdown(self) -> None:
        """End the link and wake every thread that waits for it."""

    def close(self) -> None:
        """Shut down and release all resources."""


class Channel(abc.ABC):
    """A connected byte stream.

    :ivar sock: the underlying socket, which the channel owns.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._send_lock = threading.Lock()
        # The channel that sends instead of this one, if any.
        self._other: Channel | None = None
        self._is_shut = False

    def fileno(self) -> int:
        """Return the socket's descriptor, or -1 once it is closed."""
        return self.sock.fileno()

    @abc.abstractmethod
    def recv_some_into(
        self, buffer: memoryview, deadline_s: float | None = None
    ) -> int:
        """Receive available bytes, at least one."""

    @abc.abstractmethod
    def _send_parts(
        self, parts: tuple[frames.Buffer, ...], deadline_s: float | None
    ) -> None:
        """Send buffers completely; the caller holds the send lock."""

    def recv_exact_into(
        self, buffer: memoryview, deadline_s: float | None = None
    ) -> None:
        received_bytes = 0
        while received_bytes < len(buffer):
            received_bytes += self.recv_some_into(
                buffer[received_bytes:], deadline_s
            )

    def recv_small_into(
        self, buffer: memoryview, deadline_s: float | None = None
    ) -> None:
        """Fill a small buffer; may receive more and keep it for later."""
        self.recv_exact_into(buffer, deadline_s)

    def send(
        self, *parts: frames.Buffer, deadline_s: float | None = None
    ) -> None:
        """Send buffers as one uninterrupted sequence of bytes.

        The data of concurrent calls does not mix. Nothing is copied.

        :raises DeadlineExceeded: if the peer does not read in time; some of
            the bytes may have been sent.
        """
        with self._send_lock:
            if self._other is None:
                self._send_parts(parts, deadline_s)
            else:
                self._other.send(*parts, deadline_s=deadline_s)

    def send_over(self, other: Channel, last: frames.Buffer) -> None:
        """Send on another channel from now on, and take ownership of it.

        While a thread sends, it holds the lock of the TCP socket or the TLS
        connection. With two channels, this does not block receiving.

        :param other: channel on which the peer reads after ``last``.
        :param last: the last bytes that are sent on this channel's socket.
        :raises ChannelClosed: if this connection is lost; the caller then
            still owns the other channel.
        """
        with self._send_lock:
            if self._other is not None:
                raise ChannelClosed(
                    "this channel already sends over another channel"
                )
            self._send_parts((last,), None)
            self._other = other
        if self._is_shut:
            self.shutdown()

    def end_sending(self) -> None:
        """Signal the end of the data to the peer; receiving continues.

        :raises OSError: if the connection is lost.
        """
        (self._other or self).sock.shutdown(socket.SHUT_WR)

    def _recv(
        self, buffer: memoryview, flags: int, deadline_s: float | None
    ) -> int:
        """Receive available bytes; wait until there are some."""
        if deadline_s is not None and waits.current() is None:
            wait_ready(self.sock.fileno(), select.POLLIN, deadline_s)
        while True:
            try:
                return self._recv_raw(buffer, flags)
            except BlockingIOError:
                wait_ready(self.sock.fileno(), select.POLLIN, deadline_s)

    def _recv_raw(self, buffer: memoryview, flags: int) -> int:
        try:
            received_bytes = self.sock.recv_into(buffer, 0, flags)
        except BlockingIOError:
            raise
        except OSError as exc:
            raise ChannelClosed(f"receiving failed: {exc}") from exc
        if received_bytes == 0:
            raise ChannelEnded("the peer closed the connection")
        return received_bytes

    def _send_raw(self, part: memoryview, deadline_s: float | None) -> None:
        flags = 0 if deadline_s is None else socket.MSG_DONTWAIT
        while part:
            sent_bytes = self._try_send((part,), flags)
            if sent_bytes == 0:
                wait_ready(self.sock.fileno(), select.POLLOUT, deadline_s)
            part = part[sent_bytes:]

    def _try_send(self, parts: tuple[frames.Buffer, ...], flags: int) -> int:
        try:
            return self.sock.sendmsg(parts, (), flags)
        except BlockingIOError:
            return 0
        except OSError as exc:
            raise ChannelClosed(f"sending failed: {exc}") from exc

    def shutdown(self) -> None:
        """End both directions and wake every thread that waits for them.

        The descriptor stays valid until :meth:`close`, so this is safe
        while other threads use the channel.
        """
        self._is_shut = True
        for one in (self, self._other):
            if one is not None:
                with contextlib.suppress(OSError):
                    one.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Shut down and release the descriptor; no thread may be using it."""
        self.shutdown()
        for one in (self, self._other):
            if one is not None:
                with contextlib.suppress(OSError):
                    one.sock.close()


class PlainChannel(Channel):
    """A channel over a TCP or Unix socket without encryption.

    :param sock: a connected stream socket; it will block, unless a waiter
        waits for this code.
    """

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        waits.prepare(sock)
        self._store = memoryview(b"")
        # Range of the bytes in the store that were received ahead.
        self._start = 0
        self._end = 0

    def recv_some_into(
        self, buffer: memoryview, deadline_s: float | None = None
    ) -> int:
        return self._take_ahead(buffer) or self._recv(buffer, 0, deadline_s)

    def recv_exact_into(
        self, buffer: memoryview, deadline_s: float | None = None
    ) -> None:
        received_bytes = self._take_ahead(buffer)
        # The kernel fills the whole buffer, up to 4 MiB, in one system call.
        flags = socket.MSG_WAITALL if deadline_s is None else 0
        while received_bytes < len(buffer):
            received_bytes += self._recv(
                buffer[received_bytes:], flags, deadline_s
            )

    def recv_small_into(
        self, buffer: memoryview, deadline_s: float | None = None
    ) -> None:
        # One system call receives a small payload with its header, or several
        # frames that were sent together.
        while self._end - self._start < len(buffer):
            if self._start == self._end:
                self._start = self._end = 0
            elif self._start:
                kept = self._store[self._start : self._end]
                self._store[: len(kept)] = kept
                self._start, self._end = 0, len(kept)
            if not self._store:
                self._store = memoryview(bytearray(_AHEAD_BYTES))
            place = self._store[self._end :] if self._end else self._store
            self._end += self._recv(place, 0, deadline_s)
        self._take_ahead(buffer)

    def _take_ahead(self, buffer: memoryview) -> int:
        start = self._start
        taken_bytes = min(self._end - start, len(buffer))
        if taken_bytes:
            self._start = end = start + taken_bytes
            buffer[:taken_bytes] = self._store[start:end]
        return taken_bytes

    def recv_with_fds(
        self,
        buffer: memoryview,
        max_fds: int = MAX_FDS,
        deadline_s: float | None = None,
    ) -> tuple[int, list[int]]:
        """Receive available bytes and the descriptors attached to them.

        This requires a Unix socket. Descriptors arrive with the first byte of
        their message. The other methods drop them.

        :returns: number of bytes, and the descriptors. The caller must close
            them; child processes do not inherit them.
        :raises ChannelClosed: at the end of the stream, or if more than
            ``max_fds`` descriptors were attached; with errno ``EMFILE`` if
            this process cannot open that many descriptors.
        """
        taken_bytes = self._take_ahead(buffer)
        if taken_bytes:
            return taken_bytes, []
        if deadline_s is not None and waits.current() is None:
            wait_ready(self.sock.fileno(), select.POLLIN, deadline_s)
        room_bytes = socket.CMSG_SPACE(max_fds * array.array("i").itemsize)
        while True:
            try:
                received_bytes, ancillary, flags, _ = self.sock.recvmsg_into(
                    [buffer], room_bytes, socket.MSG_CMSG_CLOEXEC
                )
                break
            except BlockingIOError:
                wait_ready(self.sock.fileno(), select.POLLIN, deadline_s)
            except OSError as exc:
                raise ChannelClosed(f"receiving failed: {exc}") from exc
        fds = take_fds(ancillary)
        if flags & _TRUNCATED or len(fds) > max_fds:
            close_fds(fds)
            if len(fds) < max_fds:
                # There was room for more, so this process reached its limit.
                raise ChannelClosed(
                    errno.EMFILE,
                    "too many open files to receive a descriptor",
                )
            raise ChannelClosed("received more descriptors than expected")
        if received_bytes == 0:
            close_fds(fds)
            raise ChannelEnded("the peer closed the connection")
        return received_bytes, fds

    def recv_exact_with_fds(
        self,
        buffer: memoryview,
        max_fds: int = MAX_FDS,
        deadline_s: float | None = None,
    ) -> list[int]:
        """Fill a buffer and collect the descriptors attached to its bytes.

        :returns: the descriptors; the caller must close them.
        :raises ChannelClosed: if the stream ends before the buffer is full,
            or if more than ``max_fds`` descriptors were attached.
        """
        fds: list[int] = []
        received_bytes = 0
        try:
            while received_bytes < len(buffer):
                more_bytes, more_fds = self.recv_with_fds(
                    buffer[received_bytes:], max_fds, deadline_s
                )
                received_bytes += more_bytes
                fds += more_fds
                if len(fds) > max_fds:
                    raise ChannelClosed(
                        "received more descriptors than expected"
                    )
        except BaseException:
            close_fds(fds)
            raise
        return fds

    def send_with_fds(
        self,
        data: frames.Buffer,
        fds: collections.abc.Sequence[int],
        deadline_s: float | None = None,
    ) -> None:
        """Send bytes with descriptors attached to the first of them.

        This requires a Unix socket. The caller still owns the descriptors.
        """
        with self._send_lock:
            if deadline_s is not None:
                wait_ready(self.sock.fileno(), select.POLLOUT, deadline_s)
            try:
                sent_bytes = self.sock.sendmsg([data], rights(fds))
            except OSError as exc:
                raise ChannelClosed(f"sending failed: {exc}") from exc
            rest = memoryview(data)[sent_bytes:]
            if rest:
                self._send_parts((rest,), deadline_s)

    def _send_parts(
        self, parts: tuple[frames.Buffer, ...], deadline_s: float | None
    ) -> None:
        flags = 0 if deadline_s is None else socket.MSG_DONTWAIT
        sent_bytes = self._try_send(parts, flags)
        if sent_bytes == sum(map(len, parts)):
            return
        for part in parts:
            if sent_bytes >= len(part):
                sent_bytes -= len(part)
                continue
            self._send_raw(memoryview(part)[sent_bytes:], deadline_s)
            sent_bytes = 0


def tune(sock: socket.socket) -> None:
    """Set the options of a data connection, as far as the system allows.

    TCP sockets send small frames at once and detect a dead path within
    seconds; the kernel sizes their buffers. Unix sockets get large buffers.
    """
    if sock.family == socket.AF_UNIX:
        options = [
            (socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER_BYTES),
            (socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER_BYTES),
        ]
    else:
        tcp = socket.IPPROTO_TCP
        options = [
            (tcp, socket.TCP_NODELAY, 1),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            (tcp, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_S),
            (tcp, socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL_S),
            (tcp, socket.TCP_KEEPCNT, _KEEPALIVE_PROBES),
            (tcp, socket.TCP_USER_TIMEOUT, _TCP_USER_TIMEOUT_MS),
        ]
    for level, option, value in options:
        with contextlib.suppress(OSError):
            sock.setsockopt(level, option, value)


def connect_tcp(
    address: str, port: int, deadline_s: float | None = None
) -> socket.socket:
    """Connect to a data port."""
    timeout_s = remaining_s(deadline_s)
    if timeout_s == 0:
        raise DeadlineExceeded("deadline passed")
    try:
        if waits.current() is None:
            sock = socket.create_connection((address, port), timeout_s)
        else:
            sock = _connect_waiting(address, port, deadline_s)
    except DeadlineExceeded:
        raise
    except TimeoutError as exc:
        raise DeadlineExceeded(f"no answer from {address}:{port}") from exc
    except (OSError, ValueError, OverflowError) as exc:
        # ValueError and OverflowError: the address or port is invalid.
        raise ChannelClosed(f"{address!r}:{port}: {exc}") from exc
    tune(sock)
    return sock


def _connect_waiting(
    address: str, port: int, deadline_s: float | None
) -> socket.socket:
    """Connect to the first address that answers, without blocking."""
    failure: OSError = OSError(f"{address!r} has no address")
    find = functools.partial(
        socket.getaddrinfo, address, port, type=socket.SOCK_STREAM
    )
    try:
        found = find(flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        # It is a name, which a server may have to be asked for.
        found = waits.offload(find)
    for family, kind, protocol, _, place in found:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            error = sock.connect_ex(place)
            if error == errno.EINPROGRESS:
                # A waiter may return too early.
                while not select.select([], [sock], [], 0)[1]:
                    wait_ready(sock.fileno(), select.POLLOUT, deadline_s)
                error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if not error:
                return sock
            failure = OSError(error, os.strerror(error))
        except BaseException:
            sock.close()
            raise
        sock.close()
    try:
        raise failure
    finally:
        del failure


#: The kernel's limit on the path of a Unix socket, without the final NUL byte.
MAX_UNIX_PATH_BYTES = 107


def connect_unix(
    path: str | os.PathLike[str],
    deadline_s: float | None = None,
    pause: collections.abc.Callable[[float], object] = time.sleep,
) -> socket.socket:
    """Connect to a Unix stream socket.

    :param deadline_s: until then, this waits while the backlog is full.
    :param pause: waits for the given seconds; an exception ends the attempt.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    tune(sock)
    # A blocking connect cannot be interrupted, and a connect with a timeout
    # fails at once if the backlog is full.
    sock.setblocking(False)
    pause_s = _FIRST_BACKLOG_PAUSE_S
    try:
        while not _connect_at_once(sock, path):
            left_s = remaining_s(deadline_s)
            if left_s == 0:
                raise DeadlineExceeded(f"no answer from {path}")
            pause(min(pause_s, left_s or pause_s))
            pause_s = min(2 * pause_s, _LONGEST_BACKLOG_PAUSE_S)
        sock.setblocking(True)
    except BaseException:
        sock.close()
        raise
    return sock


def _connect_at_once(
    sock: socket.socket, path: str | os.PathLike[str]
) -> bool:
    """Connect to a Unix socket.

    :returns: True if it is connected, False if the backlog is full.
    :raises ChannelClosed: if the connection is refused.
    """
    try:
        sock.connect(os.fspath(path))
    except BlockingIOError:
        return False
    except OSError as exc:
        raise ChannelClosed(f"{path}: {exc}") from exc
    return True


def recv_header(
    channel: Link,
    scratch: bytearray,
    *,
    max_data_bytes: int = frames.MAX_DATA_BYTES,
    deadline_s: float | None = None,
) -> frames.FrameHeader:
    """Receive the header of the next frame.

    :param scratch: 32 bytes to reuse.
    """
    channel.recv_small_into(memoryview(scratch), deadline_s)
    return frames.FrameHeader.unpack_from(
        scratch, max_data_bytes=max_data_bytes
    )


def recv_payload(
    channel: Link,
    header: frames.FrameHeader,
    deadline_s: float | None = None,
) -> bytearray:
    """Receive the payload of a frame into newly allocated memory.

    Use it for JSON and other rare frames; data goes into pooled buffers.
    """
    payload = bytearray(header.wire_payload_bytes)
    channel.recv_exact_into(memoryview(payload), deadline_s)
    return payload


def close_fds(fds: collections.abc.Iterable[int]) -> None:
    """Close all descriptors, ignoring errors."""
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)


def rights(
    fds: collections.abc.Sequence[int],
) -> list[tuple[int, int, bytes]]:
    """Return the ancillary data with which ``sendmsg`` sends descriptors."""
    if not fds:
        return []
    content = array.array("i", fds).tobytes()
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, content)]


def take_fds(
    ancillary: collections.abc.Iterable[tuple[int, int, bytes]],
) -> list[int]:
    """Extract the descriptors from what ``recvmsg`` received."""
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return list(fds)
