# SPDX-License-Identifier: Apache-2.0

"""The front door without the client library and its checks."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import struct
import typing
from collections.abc import Callable
from collections.abc import Iterable

from fpgapool.common.channels import channel
from fpgapool.common.channels import tls_channel
from fpgapool.protocol import messages
from tests.functional.worker import harness as wire
from tests.harness import waiting

TERMINAL = frozenset(
    {"CLOSED", "REJECTED", "CANCELLED", "FAILED", "EXPIRED", "LOST"}
)

_numbers = itertools.count(1)


def new_request_id() -> str:
    """Return a name that no other request of this run has."""
    return f"raw-{os.getpid()}-{next(_numbers)}"


class Refused(Exception):
    """The front door answered with an error."""

    def __init__(self, error: dict[str, str]) -> None:
        super().__init__(error)
        self.code = error["code"]


class Door:
    """One connection to a front door."""

    def __init__(self, path: str) -> None:
        self._sock = channel.connect_unix(path)
        self._sock.settimeout(waiting.LIMIT_S)
        self._decoder = messages.MessageDecoder()
        self._incoming: list[dict[str, typing.Any]] = []
        self._fds: list[int] = []
        self._last_number = 0
        #: Every view that has come, by request.
        self.views: dict[str, list[dict[str, typing.Any]]] = {}
        #: Requests and states in the order in which they came.
        self.history: list[tuple[str, str]] = []

    def __enter__(self) -> Door:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._sock.close()
        channel.close_fds(self._fds)
        self._fds = []

    def send_bytes(self, data: bytes) -> None:
        """Send whatever bytes."""
        self._sock.sendall(data)

    def send_json(self, document: object) -> None:
        """Send any JSON document as a message, valid or not."""
        payload = json.dumps(document).encode()
        self.send_bytes(struct.pack(">I", len(payload)) + payload)

    def end_input(self) -> None:
        """Tell that nothing more will be sent."""
        self._sock.shutdown(socket.SHUT_WR)

    def read_to_end(self) -> list[dict[str, typing.Any]]:
        """Return all messages that come until the front door hangs up."""
        try:
            while True:
                self._receive()
        except ConnectionError:
            return self._incoming

    def _receive(self) -> None:
        data, fds, _flags, _address = socket.recv_fds(self._sock, 65536, 4)
        self._fds += fds
        if not data:
            raise ConnectionResetError("the front door hung up")
        self._incoming += self._decoder.feed(data)

    def next_message(self) -> dict[str, typing.Any]:
        """Return the next message, and remember what it says of sessions."""
        while not self._incoming:
            self._receive()
        message = self._incoming.pop(0)
        if message.get("event") == "session":
            view = message["session"]
            request_id = view["request_id"]
            self.views.setdefault(request_id, []).append(view)
            self.history.append((request_id, view["state"]))
        return message

    def request(
        self, operation: str, **members: object
    ) -> dict[str, typing.Any]:
        """Ask something and return the answer.

        :raises Refused: if the answer is an error.
        """
        self._last_number += 1
        number = self._last_number
        self.send_json({"id": number, "op": operation, **members})
        while True:
            message = self.next_message()
            if message.get("id") == number:
                break
        if not message["ok"]:
            raise Refused(message["error"])
        return message

    def open(self, accelerator: str = "copy", **members: object) -> str:
        """Ask for a session.

        :returns: the name of the request.
        """
        members = {
            "request_id": new_request_id(),
            "size_bytes": 1,
            "accelerator": accelerator,
            **members,
        }
        self.request("open", **members)
        return str(members["request_id"])

    def wait_for(
        self,
        request_id: str,
        test: Callable[[dict[str, typing.Any]], object],
    ) -> dict[str, typing.Any]:
        """Wait for a view of a session.

        :param test: what the view has to pass.
        :returns: the newest view that does.
        :raises AssertionError: if the session ends otherwise.
        """
        while True:
            views = self.views.get(request_id, [])
            if views and test(views[-1]):
                return views[-1]
            if views and views[-1]["state"] in TERMINAL:
                raise AssertionError(f"ended otherwise: {views[-1]}")
            self.next_message()

    def wait_state(self, request_id: str, *states: str) -> dict:
        """Wait until a session's newest state is one of these."""
        return self.wait_for(request_id, lambda v: v["state"] in states)

    def open_ready(self, accelerator: str = "copy", **members: object) -> dict:
        """Ask for a session and wait for its slot.

        :returns: the READY view, with the secret.
        """
        return self.wait_state(self.open(accelerator, **members), "READY")

    def refusal(self, **members: object) -> str:
        """Ask for a session that must not come about.

        :returns: the code, of the answer or of the REJECTED that followed.
        """
        members.setdefault("request_id", new_request_id())
        # An earlier session of the same name is another matter.
        self.views.pop(str(members["request_id"]), None)
        try:
            request_id = self.open(**members)
        except Refused as error:
            return error.code
        view = self.wait_state(request_id, "REJECTED")
        return str(view["reason"])

    def connect_local(self, view: dict[str, typing.Any]) -> socket.socket:
        """Return a connection to the session's worker on this host."""
        self.request(
            "connect",
            session_id=view["session_id"],
            generation=view["generation"],
        )
        return socket.socket(fileno=self._fds.pop())

    def client(self, view: dict[str, typing.Any]) -> wire.Client:
        """Connect to a session's worker; HELLO is not sent yet."""
        if view["local"]:
            return wire.Client(channel.PlainChannel(self.connect_local(view)))
        return connect_remote(view)

    def attach(
        self, view: dict[str, typing.Any], **members: object
    ) -> wire.Client:
        """Connect to a session's worker and become its client."""
        return self.client(view).hello(view, **members)


def hold_slots(door: Door, count: int) -> list[wire.Client]:
    """Become the client of so many slots.

    :param door: by which they are asked for.
    """
    return [door.attach(door.open_ready()) for _ in range(count)]


def let_go(held: Iterable[wire.Client]) -> None:
    """Close sessions in order."""
    for one in held:
        one.close_session()
        one.close()


def refusal_of(
    client: wire.Client, view: dict[str, typing.Any], **members: object
) -> str:
    """Say HELLO where it must not be welcome, and hang up.

    :param client: a connection to a worker.
    :returns: the code of the worker's error.
    """
    with contextlib.closing(client):
        try:
            client.hello(view, **members)
        except wire.ErrorFrame as error:
            return str(error.code)
    raise AssertionError("the worker let a stranger in")


def data_endpoint(view: dict[str, typing.Any]) -> tuple[str, int]:
    """Return address and port at which a session's worker listens."""
    (endpoint,) = [
        one for one in view["endpoints"] if one["network"] != "local"
    ]
    return endpoint["address"], endpoint["port"]


def connect_remote(view: dict[str, typing.Any]) -> wire.Client:
    """Connect to a session's worker by the network."""
    sock = channel.connect_tcp(*data_endpoint(view))
    if view["certificate_sha256"] is None:
        return wire.Client(channel.PlainChannel(sock))
    return wire.Client(
        tls_channel.TlsChannel.connect(sock, view["certificate_sha256"])
    )
