# SPDX-License-Identifier: Apache-2.0

"""Admits clients and serves their connections, each in its own thread.

The thread of a local client only waits for the end of the connection: tasks
and results pass through rings that the loop reads. For a client on another
host, one thread converts frames to records, and another converts records to
frames.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import itertools
import threading
from collections.abc import Callable

from fpgapool.agent.child import crew
from fpgapool.agent.child import goodbye
from fpgapool.agent.child import port as data_ports
from fpgapool.agent.groupdesk import accounts
from fpgapool.agent.groupdesk import ports
from fpgapool.agent.groupdesk import settings as desk_settings
from fpgapool.common.channels import channel as channels
from fpgapool.common.channels import rings
from fpgapool.common.monitoring import ratelimit
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.protocol import records
from fpgapool.vocabulary import codes

LOG = ratelimit.RateLimitedLog(__name__)

#: A client is dropped if sending it frames takes longer than this.
_SEND_TIMEOUT_S = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Access:
    """A client that may attach."""

    client_id: str
    project_id: str
    secret_sha256: str = dataclasses.field(repr=False)


@dataclasses.dataclass(eq=False)
class GroupServer:
    """Serves the clients of a group on the data port."""

    settings: desk_settings.DeskSettings
    attach: Callable[..., ports.ClientPort]
    detach: Callable[[ports.ClientPort, bool], None]
    projects: accounts.Accounts

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._access: dict[str, Access] = {}
        self._revoked: set[str] = set()

    def admit(self, clients: list[Access]) -> None:
        with self._lock:
            for client in clients:
                self._access[client.client_id] = client
                self._revoked.discard(client.client_id)

    def revoke(self, client_id: str) -> None:
        with self._lock:
            if self._access.pop(client_id, None) is not None:
                self._revoked.add(client_id)

    def access(self, client_id: str) -> Access | None:
        with self._lock:
            return self._access.get(client_id)

    @property
    def client_ids(self) -> list[str]:
        """The ids of the clients that may attach."""
        with self._lock:
            return sorted(self._access)

    def serve(
        self, hello: groups.Hello, channel: channels.Channel, local: bool
    ) -> None:
        """Serve a client's connection until it ends, then close it.

        :raises data_ports.Refused: if the client may not attach now.
        """
        if (hello.transport == groups.SHM) != local:
            raise data_ports.Refused(
                codes.PROTOCOL_ERROR,
                "transport shm requires a Unix socket, and a Unix socket"
                " requires transport shm",
            )
        project_id = self._check(hello)
        with self.projects.connection(project_id, hello.client_id):
            if isinstance(channel, channels.PlainChannel) and local:
                self._serve_local(hello, channel)
            else:
                self._serve_remote(hello, channel)

    def _check(self, hello: groups.Hello) -> str:
        """Check that a client may attach, and return its project."""
        digest = hashlib.sha256(hello.secret.encode(errors="replace"))
        with self._lock:
            access = self._access.get(hello.client_id)
            revoked = hello.client_id in self._revoked
        expected = "" if access is None else access.secret_sha256
        known = hmac.compare_digest(
            digest.hexdigest().encode(), expected.encode()
        )
        if revoked:
            raise data_ports.Refused(
                codes.ACCESS_REVOKED, ports.text_of(codes.ACCESS_REVOKED)
            )
        if (
            access is None
            or not known
            or hello.group_id != self.settings.group_id
        ):
            # Always give the same answer, so that attackers learn nothing.
            raise data_ports.Refused(
                codes.UNAUTHORIZED, "invalid group, client or secret"
            )
        return access.project_id

    def _opened(self, hello: groups.Hello) -> bytes:
        settings = self.settings
        opened = groups.Opened(
            min(hello.window_tasks, settings.window_tasks),
            settings.max_task_bytes,
            groups.CHUNK_BYTES,
            settings.resume_grace_s,
            settings.block_cache_bytes,
        )
        return frames.encode_frame(
            frames.FrameHeader(frames.OPENED), opened.document()
        )

    def _serve_local(
        self, hello: groups.Hello, sock: channels.PlainChannel
    ) -> None:
        channel = rings.Channel.create(records.RING_BYTES, stranger=True)
        try:
            sock.send_with_fds(
                self._opened(hello),
                channel.fds,
                deadline_s=self._deadline_s(),
            )
            channel.forget_fds()
        except BaseException:
            channel.close()
            raise
        port = self.attach(
            hello.client_id, channel, sock.shutdown, hello.application
        )
        for_good = False
        try:
            scratch = bytearray(frames.HEADER_BYTES)
            header = channels.recv_header(sock, scratch, max_data_bytes=0)
            for_good = header.type == frames.CLOSE
        finally:
            self.detach(port, for_good)
            sock.close()

    def _serve_remote(
        self, hello: groups.Hello, channel: channels.Channel
    ) -> None:
        channel.send(self._opened(hello), deadline_s=self._deadline_s())
        mailbox = ports.Mailbox()
        port = self.attach(
            hello.client_id, mailbox, channel.shutdown, hello.application
        )
        sending = crew.CREW.start("send", self._send, channel, mailbox)
        for_good = False
        try:
            for_good = self._receive(channel, mailbox)
        except frames.ProtocolError as exc:
            LOG.warning("client dropped: %s: %s", exc.code, exc.message)
            goodbye.say(channel, exc.code, exc.message)
            goodbye.drop_rest(channel)
        finally:
            self.detach(port, for_good)
            channel.shutdown()
            sending.wait()
            channel.close()

    def _receive(
        self, channel: channels.Channel, mailbox: ports.Mailbox
    ) -> bool:
        """Convert frames to records until the connection ends.

        :returns: whether the client announced the end with CLOSE.
        """
        reader = groups.TaskReader(self.settings.max_task_bytes)
        scratch = bytearray(frames.HEADER_BYTES)
        while True:
            header = channels.recv_header(
                channel, scratch, max_data_bytes=groups.CHUNK_BYTES
            )
            if header.type == frames.CLOSE:
                return True
            payload = channels.recv_payload(channel, header)
            if header.type == frames.PING:
                channel.send(
                    frames.pack_header(
                        frames.PONG,
                        task_id=header.task_id,
                        offset_bytes=header.offset_bytes,
                    ),
                    deadline_s=channels.deadline_after(_SEND_TIMEOUT_S),
                )
                continue
            record = reader.feed(header, payload)
            if record is not None:
                mailbox.deliver(record)

    @staticmethod
    def _send(channel: channels.Channel, mailbox: ports.Mailbox) -> None:
        try:
            while True:
                channel.send(
                    *itertools.chain.from_iterable(
                        groups.result_frames(record, groups.CHUNK_BYTES)
                        for record in mailbox.next()
                    ),
                    deadline_s=channels.deadline_after(_SEND_TIMEOUT_S),
                )
        except (ConnectionError, TimeoutError):
            channel.shutdown()

    def _deadline_s(self) -> float | None:
        return channels.deadline_after(self.settings.hello_timeout_s)
