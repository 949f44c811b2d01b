# SPDX-License-Identifier: Apache-2.0

"""Connections to a worker's data port: dialing, HELLO and OPENED."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import mmap
import os
import socket
import time
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import TypeVar

from fpgapool.client import cancel as cancelling
from fpgapool.client import errors
from fpgapool.client.doors import door as doors
from fpgapool.client.doors import view as views
from fpgapool.client.links import link
from fpgapool.common.channels import buffers
from fpgapool.common.channels import channel
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import shapes
from fpgapool.vocabulary import states

_T = TypeVar("_T")

STREAM = "stream"
SHM = "shm"
CPU = "cpu"

# How long the front door may take to report the state of a session.
_OUTCOME_S = 2.0
# Grace period if the worker does not report one.
_DEFAULT_GRACE_S = 10.0
_LONGEST_GRACE_S = 86400.0
# How long to wait until the worker has received the end of the session.
_FAREWELL_S = 1.0
_MAX_WINDOW_BYTES = 2**32 - 1

#: Features that every session uses if the worker supports them.
_OFFERED = frames.BLOCKS_FEATURE, frames.CHECKPOINT_FEATURE

# What it means that a worker lacks a required feature.
_MISSING = {
    frames.CHECKSUM_FEATURE: (
        codes.CHECKSUM_UNAVAILABLE,
        "the slot's board or worker does not support checksums",
    ),
    frames.LINK_FEATURE: (
        codes.CHAIN_UNAVAILABLE,
        "the slot's worker does not support chains",
    ),
}

# Constants of the C library.
_MAP_FAILED = ctypes.c_void_p(-1).value
_MREMAP_MAYMOVE, _MREMAP_FIXED = 1, 2


WorkerError = link.Refused


class FrontDoorHangs(channel.DeadlineExceeded):
    """The front door has not provided a connection in time."""


@dataclasses.dataclass(frozen=True)
class Opened:
    """The worker's OPENED, validated."""

    resume_secret: str = dataclasses.field(repr=False)
    chunk_bytes: int
    window_bytes: int
    input_offset_bytes: int
    output_offset_bytes: int
    stateless: bool
    chunk_multiple_bytes: int
    resume_grace_s: float
    shared_buffers: int
    features: frozenset[str]
    cache_bytes: int = 0
    return_secret: str | None = dataclasses.field(default=None, repr=False)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Opened:
        """Read the JSON of OPENED.

        :raises frames.ProtocolError: if it is invalid.
        """
        found = frames.checked(_OPENED, document)
        chunk_bytes = found["chunk_bytes"]
        for name, shape in (
            ("window_bytes", shapes.integer(chunk_bytes, _MAX_WINDOW_BYTES)),
            ("chunk_multiple_bytes", shapes.integer(1, chunk_bytes)),
        ):
            frames.checked(shape, found.get(name, 1), name)
        return cls(
            resume_secret=found["resume_secret"],
            chunk_bytes=chunk_bytes,
            window_bytes=found["window_bytes"],
            input_offset_bytes=found["input_offset"],
            output_offset_bytes=found["output_offset"],
            stateless=document.get("stateless") is True,
            chunk_multiple_bytes=found.get("chunk_multiple_bytes", 1),
            resume_grace_s=_grace_s(document),
            shared_buffers=_shared_buffers(document, chunk_bytes),
            features=frozenset(found.get("features") or ()),
            cache_bytes=found.get("cache_bytes", 0),
            return_secret=found.get("return_secret"),
        )


_OPENED = shapes.Members(
    {
        "chunk_bytes": shapes.integer(1, frames.MAX_DATA_BYTES),
        "window_bytes": shapes.integer(),
        "resume_secret": shapes.text(),
        "input_offset": frames.OFFSET,
        "output_offset": frames.OFFSET,
    },
    {
        "chunk_multiple_bytes": shapes.integer(),
        "features": frames.FEATURES,
        "cache_bytes": frames.OFFSET,
        "return_secret": shapes.text(),
    },
    others=True,
)


def _grace_s(document: dict[str, Any]) -> float:
    grace_s = document.get("resume_grace_s")
    if not isinstance(grace_s, int | float):
        return _DEFAULT_GRACE_S
    # A huge number must neither overflow nor make the client retry forever.
    return float(min(max(grace_s, 0), _LONGEST_GRACE_S))


def _shared_buffers(document: dict[str, Any], chunk_bytes: int) -> int:
    shm = document.get("shm")
    if shm is None:
        return 0
    shape = shapes.Members(
        {
            "buffer_bytes": shapes.integer(chunk_bytes),
            "buffers": shapes.integer(1, 65536),
        },
        others=True,
    )
    return int(frames.checked(shape, shm, "shm")["buffers"])


class SharedBuffers:
    """The worker's input and output buffers, mapped into this process.

    A mapping exists as long as there is a view of it.

    :raises frames.ProtocolError: if a memfd is too small, or could shrink.
    """

    def __init__(
        self, input_fd: int, output_fd: int, shm: dict[str, int]
    ) -> None:
        self.buffers = shm["buffers"]
        self._buffer_bytes = shm["buffer_bytes"]
        status = os.fstat(input_fd)
        #: Equal for mappings of the same memory.
        self.identity = (status.st_dev, status.st_ino)
        try:
            self._input = self._map(input_fd)
            self._output = self._map(output_fd)
        finally:
            channel.close_fds([input_fd, output_fd])

    def check_held(self, offset_bytes: int) -> None:
        """Check that the worker has not cleared the buffers.

        Call it after reading the data: if it passes, the data was intact.
        """
        if not (self._input[-1] and self._output[-1]):
            raise errors.SessionFailed(
                codes.SESSION_LOST,
                "the slot was lost, and its worker cleared the buffers "
                "before this program resumed",
                offset_bytes,
            )

    def keep_output(self) -> None:
        """Keep the received output after the session ends.

        :raises OSError: if there is not enough memory.
        """
        detach(self._output)

    def _map(self, fd: int) -> memoryview:
        size_bytes = self.buffers * self._buffer_bytes + 1
        # Accessing a page beyond the end would kill the process.
        try:
            there_bytes = buffers.size_bytes(fd)
        except ValueError as exc:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, f"not a worker's shared memory: {exc}"
            ) from exc
        if there_bytes < size_bytes:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR,
                "the shared memory is smaller than announced",
            )
        return memoryview(mmap.mmap(fd, size_bytes, mmap.MAP_SHARED))

    def input(self, number: int) -> memoryview:
        start = number * self._buffer_bytes
        return self._input[start : start + self._buffer_bytes]

    def output(self, number: int) -> memoryview:
        start = number * self._buffer_bytes
        return self._output[start : start + self._buffer_bytes]


@functools.cache
def _libc() -> ctypes.CDLL:
    # Cached, because each CDLL object creates its own function classes.
    libc = ctypes.CDLL(None, use_errno=True)
    address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    libc.mmap.restype = libc.mremap.restype = address
    libc.mmap.argtypes = address, size, *3 * (number,), ctypes.c_long
    libc.mremap.argtypes = address, size, size, number, address
    return libc


def detach(view: memoryview) -> None:
    """Make a view's pages private, and keep their contents.

    The worker clears shared buffers when their session ends, but the program
    may still be reading its last output.

    :raises OSError: if there is not enough memory; nothing is changed.
    """
    libc = _libc()
    first_byte = ctypes.addressof(ctypes.c_char.from_buffer(view))
    start = first_byte - first_byte % mmap.PAGESIZE
    length_bytes = first_byte + len(view) - start
    access = mmap.PROT_READ | mmap.PROT_WRITE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    copy = libc.mmap(None, length_bytes, access, flags, -1, 0)
    if copy == _MAP_FAILED:
        raise OSError(
            ctypes.get_errno(), "not enough memory to copy the output"
        )
    ctypes.memmove(copy, start, length_bytes)
    # Replace the pages atomically, because another thread may be reading.
    flags = _MREMAP_MAYMOVE | _MREMAP_FIXED
    libc.mremap(copy, length_bytes, length_bytes, flags, start)


class _Pair:
    """Two connections to one worker, one for each direction.

    Only one thread at a time can use a socket or TLS connection.

    :param back: carries data from the worker once the worker switches to it.
    """

    def __init__(self, there: channel.Channel, back: channel.Channel) -> None:
        self._there = there
        self._back = back
        self._incoming = there

    def turn(self) -> None:
        """From now on, receive on the other connection."""
        self._incoming = self._back

    def send(
        self, *parts: frames.Buffer, deadline_s: float | None = None
    ) -> None:
        self._there.send(*parts, deadline_s=deadline_s)

    def recv_exact_into(
        self, buffer: memoryview, deadline_s: float | None = None
    ) -> None:
        self._incoming.recv_exact_into(buffer, deadline_s)

    def recv_small_into(
        self, buffer: memoryview, deadline_s: float | None = None
    ) -> None:
        self._incoming.recv_small_into(buffer, deadline_s)

    def shutdown(self) -> None:
        self._there.shutdown()
        self._back.shutdown()

    def close(self) -> None:
        self._there.close()
        self._back.close()


class Connection:
    """A data connection after OPENED.

    :ivar shared: shared buffers; None if payloads are in the stream.
    """

    def __init__(
        self, data: channel.Link, opened: Opened, shared: SharedBuffers | None
    ) -> None:
        self.channel = data
        self.opened = opened
        self.shared = shared

    @property
    def transport(self) -> str:
        """``shm`` or ``stream``."""
        return STREAM if self.shared is None else SHM

    def recv_header(
        self, scratch: bytearray, deadline_s: float | None
    ) -> frames.FrameHeader:
        """Receive a frame's header, and check its length against the limit.

        Otherwise, a worker could make this process use up its memory.
        """
        while True:
            header = channel.recv_header(
                self.channel,
                scratch,
                max_data_bytes=self.opened.chunk_bytes,
                deadline_s=deadline_s,
            )
            if header.type != frames.RETURN:
                return header
            if not isinstance(self.channel, _Pair):
                raise frames.ProtocolError(
                    frames.PROTOCOL_ERROR,
                    "there is no second connection to switch to",
                )
            self.channel.turn()

    def complain(
        self, failure: errors.ChecksumMismatch, scratch: bytearray
    ) -> bool:
        """Report to the worker, for its operator, why the session ends.

        Wait until the worker has read the report. Otherwise, later messages
        might arrive first, and the session would count as cancelled.
        """
        deadline_s = channel.deadline_after(_FAREWELL_S)
        with contextlib.suppress(
            channel.ChannelClosed,
            channel.DeadlineExceeded,
            frames.ProtocolError,
        ):
            self.channel.send(
                frames.error_frame(
                    failure.code, failure.message, failure.offset_bytes
                ),
                deadline_s=deadline_s,
            )
            while True:
                header = self.recv_header(scratch, deadline_s)
                channel.recv_payload(self.channel, header, deadline_s)
                if header.type == frames.ERROR:
                    return True
        return False


class Dialer:
    """Connects to the worker of a session.

    :param features: features that the worker must support.
    :param returns: use a second connection for data from the worker, if the
        worker is on another host and supports that.
    :param shares: use shared memory if the worker is on this host.
    """

    def __init__(
        self,
        view: views.SessionView,
        front_door: doors.Door,
        cancel: cancelling.CancelToken,
        features: frozenset[str] = frozenset(),
        require_tls: bool = False,
        returns: bool = False,
        shares: bool = True,
    ) -> None:
        self.view = view
        self._offered = {*features, *_OFFERED}
        if returns:
            self._offered.add(frames.RETURN_FEATURE)
        self.front_door = front_door
        self.features = features
        self._cancel = cancel
        self._local_only = require_tls and view.certificate_sha256 is None
        self._shares = shares
        #: Whether the first connection was on this host; all others must have
        #: the same transport.
        self._local: bool | None = None

    def open(
        self,
        params: Mapping[str, Any],
        deadline_s: float | None,
        start_input_offset_bytes: int = 0,
        start_output_offset_bytes: int = 0,
    ) -> Connection:
        """Connect for the first time.

        :param params: the accelerator's parameters, sent only to the worker.
        :param start_input_offset_bytes: offset at which input that began in
            another slot continues.
        :raises WorkerError: if the worker refuses; with code
            ``CHECKSUM_UNAVAILABLE`` or ``CHAIN_UNAVAILABLE`` if it does not
            support checksums or chains, or ``TLS_REQUIRED`` if it does not use
            TLS.
        :raises channel.DeadlineExceeded: if there is no response in time;
            :class:`FrontDoorHangs` if the front door did not respond.
        :raises frames.ProtocolError: if the worker's response is invalid.
        :raises errors.TooManyOpenFiles: if there is no free descriptor.
        """
        members: dict[str, object] = {
            "secret": self.view.secret,
            "params": dict(params),
        }
        if start_input_offset_bytes or start_output_offset_bytes:
            members["start_input_offset"] = start_input_offset_bytes
            members["start_output_offset"] = start_output_offset_bytes
        return self._dial(members, deadline_s)

    def resume(
        self,
        resume_secret: str,
        input_offset_bytes: int,
        output_offset_bytes: int,
        deadline_s: float | None,
    ) -> Connection:
        """Connect again."""
        members: dict[str, object] = {
            "resume_secret": resume_secret,
            "input_offset": input_offset_bytes,
            "output_offset": output_offset_bytes,
        }
        return self._dial(members, deadline_s)

    def outcome(self, deadline_s: float | None) -> views.SessionView | None:
        """Query the front door to find out whether the session lost its slot.

        :returns: the session if it has ended, is waiting again, or has another
            slot; None if it continues or its state is unknown.
        """
        limit_s = time.monotonic() + _OUTCOME_S
        limit_s = min(limit_s, deadline_s or limit_s)
        ask = functools.partial(
            self.front_door.request,
            "get",
            limit_s,
            session_id=self.view.session_id,
        )
        try:
            reply = self._twice(ask, limit_s)
            view = views.SessionView.from_message(reply.get("session"))
        except errors.Cancelled:
            raise
        except (
            doors.ConnectionLost,
            errors.FpgapoolError,
            frames.ProtocolError,
        ):
            return None
        waits = view.state == states.QUEUED
        # A view that predates this slot has an older generation.
        is_lost = (
            view.state in states.TERMINAL
            or view.generation > self.view.generation
            or (waits and view.generation == self.view.generation)
        )
        return view if is_lost else None

    def _twice(
        self, request: Callable[[], _T], deadline_s: float | None
    ) -> _T:
        """Send a request; repeat it once if the agent may have restarted."""
        try:
            return request()
        except doors.ConnectionLost:
            self.front_door.reconnect(deadline_s)
            return request()

    @errors.needing_descriptors()
    def _dial(
        self, members: dict[str, object], deadline_s: float | None
    ) -> Connection:
        attempt_s = time.monotonic() + link.ATTEMPT_S
        deadline_s = min(attempt_s, deadline_s or attempt_s)
        data, transport = self._connect(deadline_s)
        hello = {
            "features": sorted(self._offered),
            "session_id": self.view.session_id,
            "generation": self.view.generation,
            "transport": transport,
            **members,
        }
        try:
            self._cancel.attach(data)
            connection = _shake_hands(data, hello, deadline_s)
            self._local = data.sock.family == socket.AF_UNIX
            missing = self.features - connection.opened.features
            if missing:
                raise WorkerError(*_MISSING[min(missing)])
            return_secret = connection.opened.return_secret
            if transport == STREAM and return_secret is not None:
                connection.channel = self._pair(
                    data, return_secret, deadline_s
                )
            return connection
        except BaseException:
            self.hang_up(data)
            raise

    def _pair(
        self,
        there: channel.Channel,
        return_secret: str,
        deadline_s: float | None,
    ) -> channel.Link:
        """Open a second connection; if that fails, return the first one."""
        hello = {
            "session_id": self.view.session_id,
            "generation": self.view.generation,
            "transport": STREAM,
            "return_secret": return_secret,
        }
        with contextlib.ExitStack() as on_error:
            try:
                back, _ = self._connect(deadline_s)
                on_error.callback(back.close)
                link.say_hello(back, hello, deadline_s)
            except (OSError, channel.DeadlineExceeded):
                return there
            pair = _Pair(there, back)
            self._cancel.attach(pair)
            on_error.pop_all()
        self._cancel.detach(there)
        return pair

    def hang_up(self, data: channel.Link) -> None:
        """Close a connection that this dialer made.

        :param data: the connection's channel, which no thread may be using.
        """
        self._cancel.detach(data)
        data.close()

    def _connect(
        self, deadline_s: float | None
    ) -> tuple[channel.Channel, str]:
        if self._local_only and not self.view.local:
            raise link.require_tls(f"the slot's host {self.view.host_name}")
        failure: Exception = channel.ChannelClosed(
            "the session has no endpoint that this client can use"
        )
        for endpoint in link.fastest_first(self.view.endpoints):
            local = endpoint.network == views.LOCAL_NETWORK
            if not self._may_use(local):
                continue
            try:
                return link.connect(
                    endpoint,
                    self.view.certificate_sha256,
                    functools.partial(self._connect_local, deadline_s),
                    deadline_s,
                ), SHM if local and self._shares else STREAM
            except (OSError, doors.ConnectionLost) as exc:
                failure = exc.with_traceback(None)
            except errors.OperationTimeout as exc:
                # No time is left for another endpoint.
                raise FrontDoorHangs(str(exc)) from exc
            except (
                errors.RequestRejected,
                errors.FrontDoorUnavailable,
            ) as exc:
                failure = channel.ChannelClosed(str(exc))
        try:
            if isinstance(failure, OSError):
                raise failure
            raise channel.ChannelClosed(str(failure)) from failure
        finally:
            # See errors.FpgapoolError.again().
            del failure

    def _may_use(self, local: bool) -> bool:
        # If the front door is unavailable, the local endpoint is unreachable,
        # but the worker would still refuse a different transport.
        if self._local_only and not local:
            return False
        return self._local is None or local == self._local

    def _connect_local(self, deadline_s: float | None) -> socket.socket:
        # The worker is still running even if the agent was restarted.
        return self._twice(
            functools.partial(
                self.front_door.request_connection,
                self.view.session_id,
                self.view.generation,
                deadline_s,
            ),
            deadline_s,
        )


def _shake_hands(
    data: channel.Channel, hello: dict[str, Any], deadline_s: float | None
) -> Connection:
    local = hello["transport"] == SHM
    document, fds = link.shake_hands(
        data, hello, deadline_s, 2 if local else 0
    )
    try:
        opened = Opened.from_document(document)
        shared = None
        if local:
            if len(fds) != 2 or not opened.shared_buffers:
                raise frames.ProtocolError(
                    frames.PROTOCOL_ERROR,
                    "the worker sent OPENED without shared memory",
                )
            input_fd, output_fd = fds
            fds = []
            shared = SharedBuffers(input_fd, output_fd, document["shm"])
        return Connection(data, opened, shared)
    finally:
        channel.close_fds(fds)
