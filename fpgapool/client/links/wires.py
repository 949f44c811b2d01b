# SPDX-License-Identifier: Apache-2.0

"""Carry a group's records to and from the desk of a host."""

from __future__ import annotations

import functools
import queue
import select
import threading
from typing import Protocol
from typing import cast

from fpgapool.client import errors
from fpgapool.client.doors import groupdoor
from fpgapool.client.doors import view as views
from fpgapool.client.links import link
from fpgapool.common.channels import channel
from fpgapool.common.channels import doorbells
from fpgapool.common.channels import rings
from fpgapool.protocol import frames
from fpgapool.protocol import groups

_CLOSE = frames.pack_header(frames.CLOSE)

# Maximum number of records read from a ring at once, and of bytes in each.
_TAKEN_RECORDS = 32
_TAKEN_BYTES = 16 * 1024
# Maximum number of records sent to another host at once, and total bytes after
# which no more are added.
_SENT_RECORDS = 32
_SENT_BYTES = 64 * 1024


class Wire(Protocol):
    """A connection to a desk that carries records.

    :ivar leads: whether any thread may receive, one at a time; if not, only
        the connection's own thread may.
    """

    opened: groups.Opened
    leads: bool

    def put(self, *parts: rings.Buffer) -> bool:
        """Send a record; never waits.

        :returns: False if there is no room now.
        :raises rings.RingDamaged: if the desk has corrupted the ring.
        """

    def take(self, deadline_s: float | None = None) -> list[bytes]:
        """Wait for records, and return copies of the short ones.

        :returns: an empty list if the next record is long; use
            :meth:`receive` for it.
        """

    def receive(self, deadline_s: float | None = None) -> rings.Record | bytes:
        """Wait for a record, which is valid until :meth:`free`.

        :raises channel.DeadlineExceeded: if none arrives in time.
        """

    def is_whole(self) -> bool:
        """Return whether the record was intact while it was read.

        If not, the connection is lost.
        """
        return True

    def free(self) -> None:
        """Release the record's space."""
        return

    def say_goodbye(self) -> None:
        """Notify the desk that this client will not return."""

    def shutdown(self) -> None:
        """Wake the receiving thread; later waits fail at once. Thread-safe."""

    def close(self) -> None:
        """Close the connection; no thread may be using it."""


@errors.needing_descriptors()
def connect(
    host: groups.Host,
    access: groupdoor.Access,
    door: groupdoor.GroupDoor,
    window_tasks: int,
) -> Wire:
    """Connect to the desk of a host.

    :param window_tasks: maximum number of this client's unfinished tasks.
    :raises link.Refused: if the desk does not admit this client, or does not
        use TLS although it is required.
    :raises errors.TooManyOpenFiles: if there is no free descriptor.
    :raises OSError: if no endpoint is reachable.
    :raises frames.ProtocolError: if the peer is not a desk.
    """
    failure: OSError = channel.ChannelClosed("the desk has no endpoint")
    for endpoint in link.fastest_first(host.endpoints):
        local = endpoint.network == views.LOCAL_NETWORK
        if (
            access.require_tls
            and not local
            and host.certificate_sha256 is None
        ):
            raise link.require_tls(f"the desk of host {host.host_id}")
        hello = groups.Hello(
            access.group_id,
            access.client_id,
            access.secret,
            groups.SHM if local else groups.STREAM,
            window_tasks,
            access.application,
        )
        deadline_s = channel.deadline_after(link.ATTEMPT_S)
        try:
            stream = link.connect(
                endpoint,
                host.certificate_sha256,
                functools.partial(door.connect_local, access, host.host_id),
                deadline_s,
            )
            return _open(stream, hello, local, deadline_s)
        except OSError as exc:
            failure = exc.with_traceback(None)
    try:
        raise failure
    finally:
        # See errors.FpgapoolError.again().
        del failure


def _open(
    stream: channel.Channel,
    hello: groups.Hello,
    local: bool,
    deadline_s: float | None,
) -> Wire:
    try:
        document, fds = link.shake_hands(
            stream,
            hello.document(),
            deadline_s,
            rings.CHANNEL_FDS if local else 0,
        )
        try:
            opened = groups.Opened.parse(document)
            if not local:
                return RemoteWire(stream, opened)
            used, fds = fds, []
            plain = cast(channel.PlainChannel, stream)
            return LocalWire(plain, rings.Channel.attach(used), opened)
        except rings.RingDamaged as exc:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR,
                f"the desk sent OPENED without valid rings: {exc}",
            ) from exc
        finally:
            channel.close_fds(fds)
    except BaseException:
        stream.close()
        raise


class LocalWire:
    """Rings that this process shares with the desk of its host."""

    leads = True

    def __init__(
        self,
        sock: channel.PlainChannel,
        shared: rings.Channel,
        opened: groups.Opened,
    ) -> None:
        self.opened = opened
        self._sock = sock
        self._shared = shared
        self._poller = select.poll()
        self._poller.register(shared.fileno(), select.POLLIN)
        self._sock_fd = sock.fileno()
        self._poller.register(self._sock_fd, select.POLLIN)
        self.put = shared.put
        self.free = shared.free
        self.is_whole = shared.is_whole

    def take(self, deadline_s: float | None = None) -> list[bytes]:
        shared = self._shared
        try:
            while True:
                taken = shared.take(_TAKEN_RECORDS, _TAKEN_BYTES)
                if taken or shared.get() is not None:
                    return taken
                self._wait(deadline_s)
        except (rings.RingDamaged, doorbells.PeerGone) as exc:
            raise channel.ChannelClosed(str(exc)) from exc

    def receive(self, deadline_s: float | None = None) -> rings.Record:
        try:
            while (record := self._shared.get()) is None:
                self._wait(deadline_s)
            return record
        except (rings.RingDamaged, doorbells.PeerGone) as exc:
            raise channel.ChannelClosed(str(exc)) from exc

    def _wait(self, deadline_s: float | None) -> None:
        """Wait until there may be a record."""
        shared = self._shared
        ready: list[tuple[int, int]] = []
        if shared.arm():
            left_ms = None
            if deadline_s is not None:
                left_s = channel.remaining_s(deadline_s)
                if not left_s:
                    shared.disarm()
                    raise channel.DeadlineExceeded("deadline passed")
                # Round up, to avoid a busy loop in the last millisecond.
                left_ms = int(left_s * 1000) + 1
            ready = self._poller.poll(left_ms)
        shared.disarm()
        for fd, _ in ready:
            if fd == self._sock_fd and shared.get() is None:
                raise channel.ChannelClosed("the desk closed the connection")

    def say_goodbye(self) -> None:
        self._sock.send(
            _CLOSE, deadline_s=channel.deadline_after(link.ATTEMPT_S)
        )

    def shutdown(self) -> None:
        self._sock.shutdown()

    def close(self) -> None:
        self._shared.close()
        self._sock.close()


class RemoteWire(Wire):
    """Frames to and from a desk on another host.

    A separate thread sends, so that :meth:`put` never waits.
    """

    leads = False

    def __init__(self, stream: channel.Channel, opened: groups.Opened) -> None:
        self.opened = opened
        self._stream = stream
        self._reader = groups.ResultReader(opened.max_task_bytes)
        self._scratch = bytearray(frames.HEADER_BYTES)
        self._unsent: queue.SimpleQueue[tuple[rings.Buffer, ...] | None] = (
            queue.SimpleQueue()
        )
        self._sender = threading.Thread(
            target=self._send, name="fpgapool-group-send", daemon=True
        )
        self._sender.start()

    def put(self, *parts: rings.Buffer) -> bool:
        self._unsent.put(parts)
        return True

    def take(self, deadline_s: float | None = None) -> list[bytes]:
        return [self._next(deadline_s)]

    def receive(self, deadline_s: float | None = None) -> bytes:
        return self._next(deadline_s)

    def _next(self, deadline_s: float | None) -> bytes:
        try:
            while True:
                header = channel.recv_header(
                    self._stream,
                    self._scratch,
                    max_data_bytes=self.opened.chunk_bytes,
                )
                payload = channel.recv_payload(self._stream, header)
                record = self._reader.feed(header, payload)
                if record is not None:
                    return record
        except frames.ProtocolError as exc:
            raise channel.ChannelClosed(
                f"the desk violated the protocol: {exc.message}"
            ) from exc

    def say_goodbye(self) -> None:
        self._unsent.put((_CLOSE,))
        self._unsent.put(None)
        self._sender.join(link.ATTEMPT_S)

    def shutdown(self) -> None:
        self._stream.shutdown()

    def close(self) -> None:
        self._stream.shutdown()
        self._unsent.put(None)
        self._sender.join()
        self._stream.close()

    def _send(self) -> None:
        try:
            while self._send_some():
                pass
        except channel.ChannelClosed:
            # Wake the receiving thread, which handles the lost connection.
            self._stream.shutdown()

    def _send_some(self) -> bool:
        """Wait for records, and send them; return whether more follow."""
        pieces: list[rings.Buffer] = []
        sent_bytes = 0
        last = False
        for _ in range(_SENT_RECORDS):
            parts = self._unsent.get()
            if parts is None:
                last = True
                break
            record = b"".join(parts)
            if parts[0] is _CLOSE:
                pieces.append(record)
            else:
                pieces += groups.task_frames(record, self.opened.chunk_bytes)
            sent_bytes += len(record)
            if sent_bytes >= _SENT_BYTES or self._unsent.empty():
                break
        if pieces:
            self._stream.send(*pieces)
        return not last
