# SPDX-License-Identifier: Apache-2.0

"""Groups, as front doors of hosts ask for them."""

from __future__ import annotations

from typing import Any

import pytest

from fpgapool import objects
from fpgapool.common import exception
from fpgapool.conductor import rpc as conductor_rpc
from fpgapool.vocabulary import codes
from tests.unit.conductor import group_steps
from tests.unit.conductor import world


@pytest.fixture
def pool() -> world.Conductor:
    """Give a pool with three slots, and quotas for groups."""
    return group_steps.make_pool()


class Pump:
    """Asks the engine of a world, and keeps changes for later."""

    database_failing = False

    def __init__(self, asked: world.Conductor) -> None:
        self._world = asked
        self.changes: list[Any] = []

    def ask(self, question: Any, _limit_s: float, *, durable: bool) -> Any:
        assert durable
        return question(self._world.ask)

    def offer(self, item: Any, project_id: str | None = None) -> bool:
        self.changes.append(item.change)
        item.future.set_result(None)
        return True


@pytest.fixture
def pump(pool: world.Conductor) -> Pump:
    return Pump(pool)


@pytest.fixture
def endpoint(pump: Pump) -> conductor_rpc.ConductorManager:
    return conductor_rpc.ConductorManager(pump, None, 1)  # type: ignore[arg-type]


def refusal(act: Any, *arguments: Any) -> exception.FpgapoolException:
    with pytest.raises(Exception) as caught:
        act(None, *arguments)
    error = caught.value.exc_info[1]
    assert isinstance(error, exception.FpgapoolException)
    return error


def test_a_project_finds_the_groups_that_it_may_use(pool, endpoint):
    def found(project_id: str, name: str) -> list[str]:
        views = endpoint.find_groups(None, project_id, name)
        return [
            objects.GroupView.from_primitive(one).group_id for one in views
        ]

    mine = group_steps.new(name="render")
    theirs = group_steps.new(name="render", project_id="q")
    for one in (mine, theirs):
        assert group_steps.change(pool, one) == ""
    assert (
        found("p", "render")
        == found("p", mine.group_id.upper())
        == [mine.group_id]
    )
    assert found("p", theirs.group_id) == found("p", "other") == []
    share = objects.UpdateGroup(
        group_id=theirs.group_id, shared=True, projects=("p",)
    )
    assert group_steps.change(pool, share) == ""
    assert sorted(found("p", "render")) == sorted(
        [mine.group_id, theirs.group_id]
    )
    assert found("r", "render") == []
    pool.settle()
    delete = objects.DeleteGroup(group_id=theirs.group_id)
    assert group_steps.change(pool, delete) == ""
    assert found("p", "render") == [mine.group_id]


def test_a_front_door_attaches_clients(pump, endpoint):
    client = group_steps.client("g")
    assert endpoint.attach_client(None, client.to_primitive()) is None
    assert pump.changes == [client]


def test_a_project_detaches_its_own_clients_only(pool, pump, endpoint):
    wanted = group_steps.new(shared=True)
    client = group_steps.client(wanted.group_id, project_id="q")
    for one in (wanted, client):
        assert group_steps.change(pool, one) == ""
    for project_id, group_id, client_id in (
        ("p", wanted.group_id, client.client_id),
        ("q", "other", client.client_id),
        ("q", wanted.group_id, "other"),
    ):
        error = refusal(
            endpoint.detach_client, project_id, group_id, client_id
        )
        assert error.code == codes.GROUP_CLIENT_NOT_FOUND
    assert pump.changes == []
    names = (wanted.group_id, client.client_id)
    assert endpoint.detach_client(None, "q", *names) is None
    group_id, client_id = names
    assert pump.changes == [
        objects.RevokeClient(
            group_id=group_id, client_id=client_id, ended=True
        )
    ]


@pytest.mark.parametrize("junk", [None, 7, [], {}])
def test_malformed_calls_are_refused(pump, endpoint, junk):
    for act, *arguments in (
        (endpoint.find_groups, "p", junk),
        (endpoint.find_groups, junk, "n"),
        (endpoint.attach_client, junk),
        (endpoint.attach_client, group_steps.new().to_primitive()),
        (endpoint.detach_client, junk, "g", "c"),
        (endpoint.detach_client, "p", junk, "c"),
        (endpoint.detach_client, "p", "g", junk),
    ):
        assert isinstance(refusal(act, *arguments), exception.InvalidRequest)
    assert pump.changes == []
