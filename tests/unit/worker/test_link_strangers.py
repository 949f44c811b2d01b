# SPDX-License-Identifier: Apache-2.0

"""What strangers get at the end of a link, and what senders cannot do."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import typing
from collections.abc import Iterator

import pytest

from fpgapool.common.channels import channel as channels
from fpgapool.protocol import frames
from fpgapool.protocol import links
from fpgapool.vocabulary import codes
from tests.harness import chained
from tests.harness import waiting

pytestmark = pytest.mark.security

SECRET = "5e" * 16
OTHER = "07" * 16


class Site:
    """A session whose input comes over a link."""

    def __init__(self, chain: chained.Chain) -> None:
        self._chain = chain
        self.session = chain._open(1, 0, 0)
        self.flow = self.session.flow
        self.slot = chain.slots[1]
        self.expect(SECRET)

    @property
    def server(self) -> typing.Any:
        return self.slot._server

    def expect(self, secret: str) -> None:
        """Have the client order a link, and wait until it may come."""
        digest = hashlib.sha256(secret.encode())
        order = links.Order(digest.hexdigest())
        self.flow._connection.channel.send(order.frame())
        waiting.wait_until(
            lambda: self.slot_link() == digest.digest(), "the order"
        )

    def slot_link(self) -> bytes:
        return self.server._keyring._link

    def dial(self, hello: bytes) -> socket.socket:
        sock = self.slot.connect("link")
        sock.settimeout(waiting.LIMIT_S)
        sock.sendall(hello)
        return sock

    def hello(self, **changes: typing.Any) -> bytes:
        target = links.Target("s1", self.slot.generation, SECRET)
        return links.hello(target._replace(**changes))

    def is_well(self) -> bool:
        """Whether the one who may come still gets in."""
        with self.dial(self.hello()) as sock:
            return answer(sock) == (frames.OPENED, {"offset": 0})


def answer(sock: socket.socket) -> tuple[int, dict[str, typing.Any]] | None:
    """Return the answer; None if the connection is closed without one."""
    data = channels.PlainChannel(sock)
    try:
        header = channels.recv_header(data, bytearray(frames.HEADER_BYTES))
        document = frames.decode_json(channels.recv_payload(data, header))
    except channels.ChannelClosed:
        return None
    finally:
        sock.settimeout(waiting.LIMIT_S)
    return header.type, document


@pytest.fixture
def site() -> Iterator[Site]:
    chain = chained.Chain([chained.Kind(), chained.Kind()], {})
    made = Site(chain)
    yield made
    made.session.abort()
    made.slot.lose()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"secret": ""}, codes.UNAUTHORIZED),
        ({"secret": OTHER}, codes.UNAUTHORIZED),
        ({"secret": SECRET.upper()}, codes.UNAUTHORIZED),
        ({"secret": SECRET + "0"}, codes.UNAUTHORIZED),
        ({"session_id": "s0"}, codes.UNAUTHORIZED),
    ],
)
def test_a_stranger_is_refused(site, changes, code) -> None:
    with site.dial(site.hello(**changes)) as sock:
        kind, document = answer(sock)
        assert kind == frames.ERROR
        assert code is None or document["code"] == code
        assert SECRET not in json.dumps(document)
        assert sock.recv(1) == b""
    assert site.is_well()


def test_a_secret_of_before_is_no_good(site) -> None:
    assert site.is_well()
    site.expect(OTHER)
    with site.dial(site.hello()) as sock:
        assert answer(sock)[1]["code"] == codes.UNAUTHORIZED
    with site.dial(site.hello(secret=OTHER)) as sock:
        assert answer(sock)[0] == frames.OPENED


def test_a_secret_serves_one_link_at_a_time(site) -> None:
    """Whoever repeats it ends the link before it; bytes are not mixed."""
    with site.dial(site.hello()) as first:
        assert answer(first)[0] == frames.OPENED
        with site.dial(site.hello()) as second:
            assert answer(second)[0] == frames.OPENED
            assert first.recv(1) == b""


def test_the_links_of_others_lead_nowhere() -> None:
    """A secret of one session opens none of another one."""
    chain = chained.Chain([chained.Kind()] * 2, {})
    here = Site(chain)
    there = chain._open(0, 0, 0)
    with chain.slots[0].connect("link") as sock:
        target = links.Target("s0", chain.slots[0].generation, SECRET)
        sock.sendall(links.hello(target))
        assert answer(sock)[1]["code"] == codes.UNAUTHORIZED
    there.abort()
    here.session.abort()
    for slot in chain.slots.values():
        slot.lose()
    assert here.slot.is_lost


def test_nobody_sends_more_than_was_announced(site) -> None:
    """What is too much stays where it is: in the sender's socket."""
    with site.dial(site.hello()) as sock:
        assert answer(sock)[0] == frames.OPENED
        sock.setblocking(False)
        sent_bytes = 0
        with contextlib.suppress(BlockingIOError):
            while sent_bytes < 2**26:
                sent_bytes += sock.send(bytes(65536))
        assert sent_bytes < 2**24
        assert site.flow.acknowledged_bytes == 0
    assert site.is_well()


def test_a_link_that_nobody_ordered_is_refused() -> None:
    chain = chained.Chain([chained.Kind()] * 2, {})
    session = chain._open(1, 0, 0)
    slot = chain.slots[1]
    with slot.connect("link") as sock:
        sock.sendall(links.hello(links.Target("s1", slot.generation, "")))
        assert answer(sock)[1]["code"] == codes.UNAUTHORIZED
    session.abort()
    slot.lose()
