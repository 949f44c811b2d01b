# SPDX-License-Identifier: Apache-2.0

"""Two projects share a group, and neither finds what the other has sent.

The accelerator of the group looks for it wherever a core could, and the test
wherever a client and its project could. Each place is proven by a leak that is
planted there: see :mod:`tests.harness.spying`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import random
from collections.abc import Iterator

import pytest

from fpgapool import client
from fpgapool.client.links import link
from fpgapool.client.links import wires
from tests.functional.api import harness as api_harness
from tests.harness import cloud as clouds
from tests.harness import planting
from tests.harness import spying

pytestmark = pytest.mark.security

NAME = "shared"
CORE = f"{spying.__name__}:SpyCore"
SECRET_BYTES = 64
LIMIT_S = 30.0


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Give the directory where leaks are planted."""
    return tmp_path_factory.mktemp("planted")


@pytest.fixture(scope="module")
def cloud(make_cloud, planted: pathlib.Path) -> clouds.Cloud:
    variables = planting.variables(planted, spying.__name__, {"spy": CORE})
    made: clouds.Cloud = make_cloud(
        clouds.HostPlan("board", slots=1), variables=variables
    )
    return made


class Program:
    """A program of a project."""

    def __init__(
        self,
        cloud: clouds.Cloud,
        api: api_harness.Server,
        token: str,
        project_id: str,
    ) -> None:
        with pytest.MonkeyPatch.context() as patch:
            path = cloud.hosts["board"].socket_path(project_id)
            patch.setenv("FPGAPOOL_SOCKET", path)
            self.group = client.group_open(
                NAME,
                front_door=api_harness.pool_api(api, token),
                timeout_s=LIMIT_S,
            )
            # Until it is connected.
            self.run(spying.look(b"nothing"))
        (link,) = self.group._hosts._links.values()
        assert isinstance(link.wire, wires.LocalWire)
        self.rings = link.wire._shared

    def run(self, data: bytes, **params: str) -> bytes:
        output: bytes = self.group.run(data, params=params, timeout_s=LIMIT_S)
        return output

    def find(self, secret: bytes) -> set[str]:
        """Return where the accelerator and the program find a secret."""
        found = set(json.loads(self.run(spying.look(secret))))
        for ring in (self.rings._incoming, self.rings._outgoing):
            if ring._data.obj.find(secret) >= 0:
                found.add("rings of the program")
        return found


class Sharing:
    """A group that two projects share.

    :param owner: a program of the project that has hidden secrets.
    """

    def __init__(
        self,
        cloud: clouds.Cloud,
        api: api_harness.Server,
        group_id: str,
    ) -> None:
        self._cloud = cloud
        self._api = api
        self.group_id = group_id
        self.owner = Program(cloud, api, api_harness.TOKEN, clouds.PROJECT)

    def other(self) -> Program:
        """Return a new program of the other project."""
        return Program(
            self._cloud,
            self._api,
            api_harness.OTHER_TOKEN,
            clouds.OTHER_PROJECT,
        )

    def hide(self, secret: bytes, *, alone: bool = True) -> str:
        """Leave a secret wherever a task can.

        :param alone: no other client is attached, so that a lock is possible.
        :returns: the message of a task that has failed with it.
        """
        data = spying.hide(secret)
        with contextlib.ExitStack() as stack:
            if alone:
                lock = self.owner.group.lock(timeout_s=LIMIT_S)
                stack.enter_context(lock)
            for _ in range(2):
                assert self.owner.run(data, key=secret.hex()) == secret
        with pytest.raises(client.TaskFailed) as caught:
            self.owner.run(spying.fail(secret))
        assert self.owner.run(data) == secret
        return str(caught.value)

    def files_with(self, word: bytes) -> list[pathlib.Path]:
        """Return files of the pool that have a word."""
        daemons = (*self._cloud.daemons(), self._api)
        return [
            path
            for daemon in daemons
            for path in daemon.directory.rglob("*")
            if path.is_file() and word in path.read_bytes()
        ]


@pytest.fixture(scope="module")
def sharing(cloud: clouds.Cloud, api: api_harness.Server) -> Iterator[Sharing]:
    wanted = {"name": NAME, "accelerator": "spy", "size": 1}
    answer = api.ask("POST", "/v1/groups", body={"group": wanted})
    assert answer.status == 202, answer
    path = f"/v1/groups/{answer.document['group']['id']}"
    share = {"shared": True, "projects": [clouds.OTHER_PROJECT]}
    answer = api.ask(
        "PATCH", path, api_harness.ADMIN_TOKEN, body={"group": share}
    )
    assert answer.status == 200, answer
    made = Sharing(cloud, api, answer.document["group"]["id"])
    yield made
    made.owner.group.close()
    assert api.ask("DELETE", path).status == 204
    cloud.check_consistent()


@pytest.fixture
def secret(request: pytest.FixtureRequest) -> bytes:
    return random.Random(request.node.nodeid).randbytes(SECRET_BYTES)


def test_another_project_finds_nothing(sharing, cloud, secret) -> None:
    message = sharing.hide(secret)
    other = sharing.other()
    with other.group:
        assert other.find(secret) == set()
        # Also not later, when its own tasks have used all that there is.
        for _ in range(10):
            other.run(spying.hide(bytes(SECRET_BYTES)))
        sharing.hide(secret, alone=False)
        assert other.find(secret) == set()
    for word in (secret, secret.hex().encode()):
        assert sharing.files_with(word) == []
    assert secret.hex() not in message
    assert secret.hex() not in repr(cloud.snapshot())


@pytest.mark.parametrize("leak", spying.LEAKS)
def test_a_leak_is_found(sharing, planted, secret, leak: str) -> None:
    spying.plant(planted, leak)
    try:
        message = sharing.hide(secret)
        other = sharing.other()
        with other.group:
            found = other.find(secret)
    finally:
        spying.plant(planted, "")
    if secret.hex() in message:
        found.add("the message")
    if sharing.files_with(secret.hex().encode()):
        found.add("the log")
    assert spying.LEAKS[leak] in found


def test_another_project_is_told_nothing(sharing, api) -> None:
    path = f"/v1/groups/{sharing.group_id}"
    mine = sharing.owner.group.client_id
    token = api_harness.OTHER_TOKEN
    other = sharing.other()
    with other.group:
        shown = api.ask("GET", path, token).document["group"]
        assert (shown["projects"], shown["members"]) == ([], [])
        listed = api.ask("GET", f"{path}/clients", token).document["clients"]
        assert [one["id"] for one in listed] == [other.group.client_id]
        assert "secret" not in listed[0]
        for method in ("GET", "DELETE"):
            answer = api.ask(method, f"{path}/clients/{mine}", token)
            assert answer.code == "GROUP_CLIENT_NOT_FOUND"
        # Its own secret does not make it another client.
        door = other.group._door
        access = other.group._access
        (host,) = access.members.hosts
        disguised = dataclasses.replace(access, client_id=mine)
        with pytest.raises(link.Refused) as caught:
            wires.connect(host, disguised, door, window_tasks=1)
        assert caught.value.code == "UNAUTHORIZED"
    assert sharing.owner.run(spying.hide(b"x")) == b"x"
