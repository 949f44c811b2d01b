# SPDX-License-Identifier: Apache-2.0

"""The way to the desk of a client's own host."""

from __future__ import annotations

import socket

import pytest

from fpgapool.client import cancel
from fpgapool.client import errors
from fpgapool.client.doors import frontdoor
from fpgapool.client.doors import groupdoor
from fpgapool.common.channels import channel
from fpgapool.objects import identity
from fpgapool.protocol import groups
from fpgapool.vocabulary import codes

HERE = "00000000-0000-0000-0000-000000000007"
ACCESS = groupdoor.Access("g", "c", "secret", groups.MemberList(1, ()))


class Door:
    """A front door that refuses some times."""

    refusals = 0
    code = codes.GROUP_NOT_FOUND

    def __init__(self, *_: object) -> None:
        self.asked = 0

    def request(self, operation: str, *_: object, **__: object) -> object:
        assert operation == "hello"
        return {"host_uuid": HERE}

    def request_desk(self, group_id: str, _: object) -> socket.socket:
        assert group_id == "g"
        Door.refusals -= 1
        if Door.refusals >= 0:
            raise errors.RequestRejected(self.code, "no")
        mine, other = socket.socketpair()
        other.close()
        return mine

    def close(self) -> None:
        pass


@pytest.fixture
def door(monkeypatch) -> type[Door]:
    monkeypatch.setattr(frontdoor, "FrontDoor", Door)
    monkeypatch.setattr(groupdoor, "_PAUSE_S", 0.001)
    return Door


def _door() -> groupdoor.GroupDoor:
    return groupdoor.GroupDoor("path", cancel.CancelToken())


def test_an_agent_that_does_not_know_a_new_client_yet(door) -> None:
    door.refusals = 3
    _door().connect_local(ACCESS, HERE).close()
    assert door.refusals == -1


@pytest.mark.parametrize("host_id", [identity.host_hash(HERE, "g"), HERE])
def test_a_group_calls_a_host_by_its_hash(door, host_id) -> None:
    """Agents of release 1.0.0 call it by its UUID."""
    door.refusals = 0
    _door().connect_local(ACCESS, host_id).close()


@pytest.mark.parametrize(
    ("host_id", "code", "refusals"),
    [
        ("there", codes.GROUP_NOT_FOUND, 5),
        (HERE, codes.WORKER_LOST, 4),
    ],
)
def test_desks_that_are_asked_for_once(
    door, monkeypatch, host_id, code, refusals
) -> None:
    monkeypatch.setattr(door, "code", code)
    door.refusals = 5
    with pytest.raises(channel.ChannelClosed):
        _door().connect_local(ACCESS, host_id)
    assert door.refusals == refusals


def test_an_agent_that_never_knows_the_client(door, monkeypatch) -> None:
    monkeypatch.setattr(groupdoor, "_UNKNOWN_S", 0.005)
    door.refusals = 10**6
    with pytest.raises(channel.ChannelClosed):
        _door().connect_local(ACCESS, HERE)
