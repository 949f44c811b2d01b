# SPDX-License-Identifier: Apache-2.0

"""The front door's operations about groups, and programs that use them."""

from __future__ import annotations

import dataclasses
import hashlib

import pytest

from fpgapool import client
from fpgapool import objects
from fpgapool.objects import identity
from fpgapool.vocabulary import codes
from tests.functional.agent import grouphosts
from tests.functional.agent import harness

NAME = "render"
HASH = hashlib.sha256(grouphosts.SECRET.encode()).hexdigest()


def view(
    group_id: str = grouphosts.GROUP, *hosts: objects.GroupHost
) -> objects.GroupView:
    return objects.GroupView(
        group_id=group_id,
        name=NAME,
        project_id=harness.PROJECT,
        accelerator="copy",
        state="ACTIVE",
        size=2,
        min_size=1,
        max_size=2,
        created_at=1.0,
        projects=("project-c",),
        hosts=hosts,
        hosts_revision=len(hosts),
    )


@pytest.fixture
def door(host):
    host.start()
    host.conductor.groups = [view()]
    with harness.Client(host.front_door) as connected:
        yield connected


def attach(door, **changes):
    members = {"name": NAME, "secret_sha256": HASH, **changes}
    return door.request("attach_group", **members)


def test_a_group_on_very_many_hosts(host, door):
    """Clients learn of some: their own host, and of the others a part."""
    uuids = [f"{number:08}-0000-4000-8000-{0:012}" for number in range(2500)]
    own = dataclasses.replace(HERE, host_uuid=harness.HOST)
    others = [dataclasses.replace(HERE, host_uuid=uuid) for uuid in uuids]
    host.conductor.groups = [view(grouphosts.GROUP, *others, own)]
    for reply in (
        attach(door),
        door.request("group", group_id=grouphosts.GROUP),
    ):
        assert reply["ok"]
        found = [one["host_uuid"] for one in reply["hosts"]]
        assert found[0] == own.seen_in(grouphosts.GROUP).host_uuid
        assert len(set(found)) == len(found) > 100
        assert reply["hosts_revision"] == 2501


HERE = objects.GroupHost(
    host_uuid="",
    members=4,
    endpoints=(
        objects.Endpoint(network="data", address="192.0.2.1", port=7000),
    ),
    certificate_sha256="ab" * 32,
)


def test_a_client_is_attached_shown_and_detached(host, door):
    reply = attach(door)
    client_id = reply["client_id"]
    sent = host.conductor.wait_for("attach_client", lambda one: True)
    assert sent.client_id == client_id
    assert (sent.group_id, sent.project_id, sent.secret_hash) == (
        grouphosts.GROUP,
        harness.PROJECT,
        HASH,
    )
    assert sent.user_id
    host.conductor.groups = [
        view(
            grouphosts.GROUP,
            objects.GroupHost(
                host_uuid=harness.HOST,
                members=2,
                endpoints=(objects.Endpoint("local", "", 0),),
            ),
        )
    ]
    shown = door.request("group", group_id=grouphosts.GROUP)
    assert shown["hosts_revision"] == 1
    (found,) = shown["hosts"]
    # As desks and the API call it, too.
    mine = identity.host_hash(harness.HOST, grouphosts.GROUP)
    assert (found["host_uuid"], found["members"]) == (mine, 2)
    # What only the owner may know stays here.
    assert not {"projects", "members"} & {*shown, *reply}
    assert door.request(
        "detach_group", group_id=grouphosts.GROUP, client_id=client_id
    )["ok"]
    assert host.conductor.named("detach_client") == [
        (harness.PROJECT, grouphosts.GROUP, client_id)
    ]


@pytest.mark.parametrize(
    ("operation", "members", "code"),
    [
        ("attach_group", {"name": "other"}, codes.GROUP_NOT_FOUND),
        ("attach_group", {"name": ""}, codes.GROUP_NOT_FOUND),
        ("attach_group", {"name": 5}, codes.GROUP_NOT_FOUND),
        ("attach_group", {"name": "x" * 256}, codes.GROUP_NOT_FOUND),
        ("attach_group", {"secret_sha256": "x"}, codes.INVALID_REQUEST),
        ("attach_group", {"secret_sha256": None}, codes.INVALID_REQUEST),
        ("group", {"group_id": "../x"}, codes.GROUP_NOT_FOUND),
        ("group", {"group_id": "other"}, codes.GROUP_NOT_FOUND),
        ("detach_group", {"group_id": 5}, codes.GROUP_NOT_FOUND),
        ("detach_group", {"client_id": "a/b"}, codes.GROUP_CLIENT_NOT_FOUND),
        ("detach_group", {"client_id": None}, codes.GROUP_CLIENT_NOT_FOUND),
    ],
)
def test_bad_wishes(host, door, operation, members, code):
    wish = {
        "name": NAME,
        "secret_sha256": HASH,
        "group_id": grouphosts.GROUP,
        "client_id": "c",
        **members,
    }
    reply = door.request(operation, **wish)
    assert reply["error"]["code"] == code
    for change in ("attach_client", "detach_client"):
        assert host.conductor.named(change) == []


def test_a_name_that_two_projects_use(host, door):
    host.conductor.groups = [view("a"), view("b")]
    assert attach(door)["error"]["code"] == codes.INVALID_REQUEST
    assert attach(door, name="a")["ok"]


def test_what_the_conductor_refuses(host, door):
    host.conductor.refusal = codes.QUOTA_EXCEEDED
    assert attach(door)["error"]["code"] == codes.QUOTA_EXCEEDED
    reply = door.request("detach_group", group_id="g", client_id="c")
    assert reply["error"]["code"] == codes.QUOTA_EXCEEDED


def test_a_conductor_that_is_away(host, door):
    host.conductor.unavailable = True
    assert attach(door)["error"]["code"] == codes.CONDUCTOR_UNAVAILABLE


def open_group(host: harness.Host, **options: object) -> client.Group:
    return client.group_open(
        NAME, **{"front_door": host.front_door, "timeout_s": 30.0, **options}
    )


@pytest.mark.parametrize(
    ("options", "error", "code"),
    [
        ({"accelerator": "aes"}, client.InvalidRequest, "WRONG_ACCELERATOR"),
        (
            {"accelerator": "none"},
            client.RequestRejected,
            "UNKNOWN_ACCELERATOR",
        ),
        ({"timeout_s": 0.3}, client.OperationTimeout, "TIMEOUT"),
    ],
)
def test_a_program_that_gets_no_access_leaves_nothing(
    host, options, error, code
):
    host.start()
    host.conductor.groups = [view()]
    with pytest.raises(error) as caught:
        open_group(host, **options)
    assert caught.value.code == code
    gone = [one[2] for one in host.conductor.named("detach_client")]
    came = [one.client_id for one in host.conductor.named("attach_client")]
    assert gone == came


def test_without_a_front_door(tmp_path):
    with pytest.raises(client.FrontDoorUnavailable):
        client.group_open(NAME, front_door=str(tmp_path / "none.sock"))
