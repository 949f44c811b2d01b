# SPDX-License-Identifier: Apache-2.0

"""A program without free descriptors: no connection was lost."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from unittest import mock

import pytest

from fpgapool import client
from fpgapool.client import cancel
from fpgapool.client import errors
from fpgapool.client.doors import frontdoor
from fpgapool.client.doors import groupdoor
from fpgapool.client.doors import view as views
from fpgapool.client.groups import grouphosts
from fpgapool.client.groups import grouplink
from fpgapool.client.links import connection as connections
from fpgapool.client.links import waiting
from fpgapool.client.links import wires
from fpgapool.common.channels import channel
from fpgapool.protocol import groups
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes
from tests.harness import listener as listeners

ACCESS = groupdoor.Access("g", "c", "secret", groups.MemberList(1, ()))
HOST = groups.Host("there", 1, (("data", "127.0.0.1", 1),), None)
READY = views.SessionView.from_message(
    {
        "session_id": "s",
        "state": "READY",
        "generation": 1,
        "secret": "secret",
        "endpoints": [{"network": "data", "address": "127.0.0.1", "port": 1}],
    }
)


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    """Let this process open nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull) as null:
        lowest = null.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def refused() -> Iterator[None]:
    with (
        pytest.raises(errors.TooManyOpenFiles) as caught,
        no_descriptors(),
    ):
        yield
    assert caught.value.code == codes.TOO_MANY_OPEN_FILES


@pytest.fixture
def listener(tmp_path) -> Iterator[listeners.Listener]:
    with listeners.listening(str(tmp_path / "door")) as listener:
        yield listener


def test_a_front_door_that_cannot_be_dialed(listener) -> None:
    with refused():
        frontdoor.FrontDoor(listener.path, cancel.CancelToken())


def test_a_lack_that_is_over(listener) -> None:
    """A program that handles one may fail otherwise then."""
    try:
        raise OSError(errno.EMFILE, "too many")
    except OSError:
        with pytest.raises(errors.FrontDoorUnavailable):
            frontdoor.FrontDoor("none", cancel.CancelToken())


def test_a_descriptor_that_cannot_be_received(listener) -> None:
    door = frontdoor.FrontDoor(listener.path, cancel.CancelToken())
    with contextlib.closing(door):
        peer = channel.PlainChannel(listener.accept())
        peer.send_with_fds(messages.encode(messages.reply(1)), [0])
        with refused():
            door.request_connection("s", 1, None)


def test_more_descriptors_than_expected_are_no_lack(listener) -> None:
    with channel.connect_unix(listener.path) as sock:
        peer = channel.PlainChannel(listener.accept())
        peer.send_with_fds(b"x", [0, 0, 0])
        with pytest.raises(channel.ChannelClosed) as caught:
            channel.PlainChannel(sock).recv_with_fds(
                memoryview(bytearray(1)), 2
            )
    assert caught.value.errno is None


def test_a_worker_that_cannot_be_dialed() -> None:
    """The session ends, rather than trying for as long as its slot waits."""
    dialer = connections.Dialer(READY, mock.Mock(), cancel.CancelToken())
    with refused():
        dialer.open({}, None)
    door = mock.Mock()
    door.next_event.return_value = {"event": "session", "session": READY}
    seeker = waiting.SlotSeeker(door, {}, cancel.CancelToken(), None)
    with refused():
        seeker.open(lambda _: None, None)


def test_a_desk_that_cannot_be_dialed() -> None:
    with refused():
        wires.connect(HOST, ACCESS, mock.Mock(), 1)


def test_a_group_whose_desks_cannot_be_dialed() -> None:
    door = mock.Mock()
    hosts = grouphosts.Hosts(door, ACCESS, 16, mock.Mock())
    link = grouplink.HostLink(HOST, hosts._lock)
    with no_descriptors():
        hosts._serve(link)
    assert isinstance(hosts.failure, errors.TooManyOpenFiles)
    door.members.assert_not_called()


def test_a_door_that_cannot_be_asked_for_desks() -> None:
    door = mock.Mock()
    door.members.side_effect = errors.TooManyOpenFiles("none is free")
    hosts = grouphosts.Hosts(door, ACCESS, 16, mock.Mock())
    hosts._ask_door()
    assert isinstance(hosts.failure, errors.TooManyOpenFiles)


def test_an_api_that_cannot_be_dialed() -> None:
    api = client.PoolApi.at("http://127.0.0.1:1")
    # What it imports at the first request needs descriptors, too.
    with pytest.raises(errors.FrontDoorUnavailable):
        api.enter(cancel.CancelToken(), None)
    with refused():
        api.enter(cancel.CancelToken(), None)
