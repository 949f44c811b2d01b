# SPDX-License-Identifier: Apache-2.0

"""Silent connections are cut, and not those that come after them."""

import socket

import pytest

from fpgapool.common.channels import pending as strangers


@pytest.fixture
def pairs():
    """Give a function that makes a connection; both ends end with the test."""
    made = []

    def make() -> tuple[socket.socket, socket.socket]:
        pair = socket.socketpair()
        for one in pair:
            one.settimeout(30)
        made.extend(pair)
        return pair

    yield make
    for one in made:
        one.close()


def _is_cut(peer: socket.socket) -> bool:
    peer.setblocking(False)
    try:
        return peer.recv(1) == b""
    except BlockingIOError:
        return False


def test_there_is_room_again_for_each_that_leaves(pairs) -> None:
    found = strangers.Strangers(2)
    for _ in range(10):
        sock, peer = pairs()
        with found.one(sock, "a"):
            assert len(found) == 1
        assert not _is_cut(peer)
    assert found.cut_count == 0


def test_the_longest_silent_goes(pairs) -> None:
    found = strangers.Strangers(3)
    peers = []
    for _ in range(5):
        sock, peer = pairs()
        found.enter(sock, "a")
        peers.append(peer)
    assert [_is_cut(peer) for peer in peers] == [True, True] + [False] * 3
    assert (len(found), found.cut_count) == (3, 2)


def test_of_the_address_that_has_most(pairs) -> None:
    """An old one of somebody else's stays, however many of them come."""
    found = strangers.Strangers(4)
    sock, honest = pairs()
    found.enter(sock, "honest")
    flood = []
    for _ in range(20):
        sock, peer = pairs()
        found.enter(sock, "greedy")
        flood.append(peer)
    assert not _is_cut(honest)
    assert [_is_cut(peer) for peer in flood] == [True] * 17 + [False] * 3


def test_who_was_cut_may_leave_and_end(pairs) -> None:
    found = strangers.Strangers(1)
    first, _ = pairs()
    found.enter(first, "a")
    second, peer = pairs()
    # It has hung up meanwhile.
    first.close()
    found.enter(second, "b")
    found.leave(first)
    assert len(found) == 1
    assert not _is_cut(peer)
