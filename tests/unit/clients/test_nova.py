# SPDX-License-Identifier: Apache-2.0

"""Nova's answers, read from canned bodies."""

import datetime
import json
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from keystoneauth1 import exceptions

from fpgapool.clients import nova
from fpgapool.common import exception

VM = str(uuid.UUID(int=1))
SERVER = {
    "id": VM,
    "tenant_id": "p1",
    "name": "web",
    "status": "ACTIVE",
    "OS-EXT-SRV-ATTR:hypervisor_hostname": "c1",
    "flavor": {
        "original_name": "fpga.small",
        "extra_specs": {"fpgapool:accelerators": "aes"},
    },
}


class Answer:
    def __init__(self, text: str) -> None:
        self._text = text

    def json(self) -> Any:
        return json.loads(self._text)


class Adapter:
    """Answers in turn."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.microversions: set[str] = set()

    def get(self, path: str, *, params: Any, **options: Any) -> Answer:
        self.microversions.add(options.pop("microversion"))
        assert options == {"timeout": 3.0}
        self.asked.append((path, dict(params or {})))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Answer(
            answer if isinstance(answer, str) else json.dumps(answer)
        )


def client(*answers: Any) -> tuple[nova.Nova, Adapter]:
    adapter = Adapter(*answers)
    return nova.Nova(adapter, timeout_s=3.0, page_length=2), adapter


def test_a_server():
    asked, adapter = client({"server": SERVER})
    found = asked.server(VM)
    assert found == nova.Server(
        id=VM,
        project_id="p1",
        name="web",
        status="ACTIVE",
        hypervisor="c1",
        extra_specs={"fpgapool:accelerators": "aes"},
    )
    assert not found.deleted
    assert adapter.asked == [(f"/servers/{VM}", {})]
    assert adapter.microversions == {"2.53"}


def test_a_server_that_tells_little():
    asked, _ = client({"server": {"id": VM, "tenant_id": "p1", "name": None}})
    found = asked.server(VM)
    assert found == nova.Server(id=VM, project_id="p1")
    assert found.extra_specs is None


def test_no_server():
    asked, _ = client(exceptions.NotFound())
    assert asked.server(VM) is None


def test_news_come_in_pages():
    deleted = {**SERVER, "id": str(uuid.UUID(int=3)), "status": "DELETED"}
    more = {"servers_links": [{"rel": "next", "href": "http://nova/x"}]}
    other = {**SERVER, "id": str(uuid.UUID(int=2))}
    asked, adapter = client(
        {"servers": [SERVER, other], **more}, {"servers": [deleted]}
    )
    found = list(asked.servers(1_700_000_000.9))
    assert [one.deleted for one in found] == [False, False, True]
    first, second = (query for _, query in adapter.asked)
    assert first == {
        "all_tenants": "1",
        "changes-since": "2023-11-14T22:13:20Z",
        "limit": 2,
    }
    assert second == {**first, "marker": other["id"]}
    datetime.datetime.fromisoformat(first["changes-since"])


def test_all_servers_are_asked_for_without_a_time():
    asked, adapter = client({"servers": []})
    assert list(asked.servers()) == []
    assert adapter.asked == [
        ("/servers/detail", {"all_tenants": "1", "limit": 2})
    ]


def test_pages_that_go_in_circles_end():
    page = {
        "servers": [SERVER],
        "servers_links": [{"rel": "next", "href": "x"}],
    }
    asked, adapter = client(page, page, page)
    assert len(list(asked.servers())) == 2
    assert len(adapter.asked) == 2


def test_names_of_several_computes_stand_for_none():
    nodes = [("c1", "u1"), ("c2", "u2"), ("c1", "u3")]
    asked, _ = client(
        {
            "hypervisors": [
                {"hypervisor_hostname": name, "id": id_, "state": "up"}
                for name, id_ in nodes
            ]
        }
    )
    assert asked.computes() == nova.Computes(
        frozenset({"u1", "u2", "u3"}), {"c2": "u2"}
    )


def test_one_compute_is_asked_for():
    node = {"hypervisor_hostname": "c1", "id": VM, "state": "down"}
    asked, adapter = client({"hypervisor": node}, exceptions.NotFound())
    assert asked.has_compute(VM)
    assert not asked.has_compute(VM)
    assert adapter.asked == [(f"/os-hypervisors/{VM}", {})] * 2


def _move(number: int) -> dict[str, Any]:
    return {"id": number, "uuid": f"m{number}", "instance_uuid": f"i{number}"}


def test_instances_of_migrations():
    more = {"migrations_links": [{"rel": "next", "href": "http://nova/x"}]}
    asked, adapter = client(
        {"migrations": [_move(4), _move(3)], **more},
        {"migrations": [_move(2), _move(1)], **more},
    )
    assert asked.migrating({"m3", "m2"}) == {"m3": "i3", "m2": "i2"}
    # Those before are of no interest then.
    assert [query for _, query in adapter.asked] == [
        {"limit": 2},
        {"limit": 2, "marker": "m3"},
    ]
    assert adapter.microversions == {"2.59"}


def test_what_is_no_migration_is_not_found():
    asked, _ = client({"migrations": [_move(1)]})
    assert asked.migrating(["m1", "x"]) == {"m1": "i1"}


def test_old_migrations_are_not_asked_for_without_end():
    more = {"migrations_links": [{"rel": "next", "href": "http://nova/x"}]}
    asked, adapter = client(
        *({"migrations": [_move(number)], **more} for number in range(50))
    )
    assert asked.migrating(["m0", "x"]) == {"m0": "i0"}
    assert len(adapter.asked) == 10


def test_instances_come_to_their_last_page():
    more = {"servers_links": [{"rel": "next", "href": "http://nova/x"}]}
    pages = [
        {"servers": [{**SERVER, "id": str(uuid.UUID(int=number))}], **more}
        for number in range(12)
    ]
    asked, _ = client(*pages, {"servers": []})
    assert len(list(asked.servers())) == 12


@pytest.mark.parametrize(
    "answer",
    [
        exceptions.ConnectFailure("no route"),
        exceptions.ConnectTimeout("slow"),
        exceptions.Unauthorized(),
        exceptions.InternalServerError(),
        exceptions.EndpointNotFound(),
        OSError("no such cafile"),
        "<html>",
        "[]",
        "null",
        {},
        {"server": None, "servers": None},
        {"server": {}, "servers": [{}]},
        {"server": [], "servers": [[]]},
        {
            "server": {**SERVER, "flavor": {"extra_specs": "x"}},
            "servers": [{**SERVER, "flavor": {"extra_specs": []}}],
        },
    ],
    ids=repr,
)
def test_whatever_makes_no_sense_means_that_nova_is_away(answer):
    for ask in (
        lambda one: one.server(VM),
        lambda one: list(one.servers()),
        lambda one: list(one.computes().uuids),
        lambda one: one.migrating(["m1"]),
        lambda one: one.has_compute(VM),
    ):
        asked, _ = client(answer)
        with pytest.raises(exception.NovaUnavailable):
            ask(asked)
