# SPDX-License-Identifier: Apache-2.0

"""A group's desk, as its members see it."""

from __future__ import annotations

import itertools
import json
import pathlib
import select
import typing

from fpgapool.agent.child import port
from fpgapool.common.channels import channel as channels
from fpgapool.common.channels import rings
from fpgapool.protocol import records
from tests.functional.worker import harness


class Reply(typing.NamedTuple):
    """A record from a member, copied."""

    task_id: int
    kind: int
    busy_ns: int
    detail: typing.Any
    output: bytes


class Gone(Exception):
    """The member has closed the connection."""


class Member:
    """The desk's end of one member."""

    def __init__(
        self, channel: rings.Channel, connection: channels.Channel
    ) -> None:
        self.channel = channel
        self._connection = connection
        self._numbers = itertools.count(1)

    def send(
        self,
        kind: int,
        data: bytes = b"",
        params: typing.Any = None,
        offset: int = 0,
        task_id: int | None = None,
    ) -> int:
        """Send a record and return its task's number."""
        encoded = (
            params
            if isinstance(params, bytes)
            else b""
            if params is None
            else json.dumps(params).encode()
        )
        task_id = next(self._numbers) if task_id is None else task_id
        head = records.header(kind, task_id, len(encoded), offset)
        while not self.channel.put(head, encoded, data):
            needed_bytes = len(head) + len(encoded) + len(data)
            assert self.channel.wait(harness.TIMEOUT_S, needed_bytes)
        return task_id

    def recv(self) -> Reply:
        """Receive the next record."""
        poller = select.poll()
        poller.register(self.channel.fileno(), select.POLLIN)
        poller.register(self._connection.fileno(), select.POLLIN)
        while (record := self.channel.get()) is None:
            if self.channel.arm():
                ready = poller.poll(harness.TIMEOUT_S * 1000)
                assert ready, "the member is silent"
                if self.channel.get() is None and any(
                    fd == self._connection.fileno() for fd, _ in ready
                ):
                    raise Gone
            self.channel.disarm()
        reply = records.split(record)
        detail = bytes(reply.middle)
        copied = Reply(
            reply.task_id,
            reply.kind,
            reply.number,
            json.loads(detail) if detail else None,
            bytes(reply.rest),
        )
        self.channel.free()
        return copied

    def run(self, data: bytes = b"", **members: typing.Any) -> Reply:
        """Run a task."""
        task_id = self.send(records.TASK, data, **members)
        reply = self.recv()
        assert reply.task_id == task_id
        return reply

    def clear(self) -> None:
        """Let the member forget the last client."""
        self.send(records.CLEAR, task_id=0)
        assert self.recv().kind == records.CLEARED

    def close(self) -> None:
        """Close the connection, as if the desk had died."""
        self._connection.close()
        self.channel.close()


class Desk:
    """Awaits members."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.path = str(directory / "members.sock")
        self._listener = port.listen_unix(self.path)
        self._listener.settimeout(harness.TIMEOUT_S)
        self.members: list[Member] = []
        self.connections: list[channels.Channel] = []

    def accept(self, ring_bytes: int = records.RING_BYTES) -> Member:
        """Give the next member its rings, and hear that it is ready."""
        member = self.greet(ring_bytes)
        ready = member.recv()
        assert ready.kind == records.READY
        assert ready.detail.keys() == {"device", "slot", "generation"}
        return member

    def greet(self, ring_bytes: int = records.RING_BYTES) -> Member:
        """Give the next member its rings."""
        channel = rings.Channel.create(ring_bytes)
        connection = self.admit(channel.fds)
        channel.forget_fds()
        member = Member(channel, connection)
        self.members.append(member)
        return member

    def admit(self, fds: list[int]) -> channels.Channel:
        """Give the next member the ends of its rings."""
        sock, _ = self._listener.accept()
        connection = channels.PlainChannel(sock)
        self.connections.append(connection)
        connection.send_with_fds(b"\0", fds)
        return connection

    def stop_listening(self) -> None:
        """Let connections be refused."""
        self._listener.close()

    def close(self) -> None:
        self.stop_listening()
        for member in self.members:
            member.close()
        for connection in self.connections:
            connection.close()
