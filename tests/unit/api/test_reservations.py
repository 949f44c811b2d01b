# SPDX-License-Identifier: Apache-2.0

"""Reservations in the API."""

import pytest

from fpgapool.vocabulary import codes
from tests.unit.api import fakes

PATH = "/v1/reservations"


def create(world, token=fakes.MEMBER, status=201, **members):
    body = {"reservation": {**fakes.RESERVED, **members}}
    answer = world.ask("POST", PATH, token, body=body)
    assert answer.status_code == status
    if status != 201:
        return answer.json["errors"][0]
    found = answer.json["reservation"]
    assert answer.headers["Location"].endswith(f"{PATH}/{found['id']}")
    return found


def test_it_is_made_and_shown(world):
    found = create(world, name="night")
    id_ = found["id"]
    assert found.pop("links")[0]["href"].endswith(f"{PATH}/{id_}")
    assert found == {
        "id": id_,
        "name": "night",
        "project_id": "p1",
        "accelerator": "copy",
        "slots": 1,
        "start_at": "2023-11-15T08:00:00.000000Z",
        "end_at": "2023-11-15T09:00:00.000000Z",
        "state": "scheduled",
        "repeat": "never",
        "times": 1,
        "host_uuids": [],
        "device_id": None,
        "grace_s": 900.0,
        "working_slots": 0,
        "used_slot_s": 0.0,
        "unused_slot_s": 0.0,
        "created_at": "2023-11-14T22:13:20.000000Z",
    }
    shown = world.ask("GET", f"{PATH}/{id_.upper()}", fakes.READER)
    assert shown.json["reservation"]["name"] == "night"


def test_it_is_changed_and_deleted(world):
    path = f"{PATH}/{create(world)['id']}"
    body = {"reservation": {"end_at": "2023-11-15T10:00:00", "times": 1}}
    answer = world.ask("PATCH", path, fakes.MEMBER, body=body)
    assert answer.json["reservation"]["end_at"].startswith("2023-11-15T10")
    assert world.error("PATCH", path, fakes.READER, body=body) == (
        403,
        codes.FORBIDDEN,
    )
    assert world.error("DELETE", path, fakes.READER) == (403, codes.FORBIDDEN)
    assert world.ask("DELETE", path, fakes.MEMBER).status_code == 204
    missing = (404, codes.RESERVATION_NOT_FOUND)
    assert world.error("GET", path, fakes.MEMBER) == missing
    assert world.error("DELETE", path, fakes.MEMBER) == missing


def test_other_projects_do_not_see_it(world):
    foreign = create(world, fakes.ADMIN, project_id="p2")
    assert foreign["project_id"] == "p2"
    path = f"{PATH}/{foreign['id']}"
    for method, body in (
        ("GET", None),
        ("PATCH", {"reservation": {"slots": 1}}),
        ("DELETE", None),
    ):
        found = world.error(method, path, fakes.MEMBER, body=body)
        assert found == (404, codes.RESERVATION_NOT_FOUND)
    assert world.ask("GET", path, fakes.ADMIN).status_code == 200
    assert create(world, status=403, project_id="p2")["code"] == (
        codes.FORBIDDEN
    )


def test_lists(world):
    own = create(world, name="own")["id"]
    later = create(
        world,
        start_at="2023-12-15T08:00:00",
        end_at="2023-12-15T09:00:00",
    )["id"]
    foreign = create(world, fakes.ADMIN, project_id="p2")["id"]

    def listed(query="", token=fakes.MEMBER):
        answer = world.ask("GET", f"{PATH}{query}", token)
        assert answer.status_code == 200
        return [one["id"] for one in answer.json["reservations"]]

    assert listed() == [own, later]
    assert listed("?sort_key=start_at&sort_dir=desc") == [later, own]
    assert listed("?name=own") == [own]
    assert listed("?state=ended") == []
    assert listed("?limit=1") == [own]
    assert listed(f"?marker={own}") == [later]
    everything = listed("?all_projects=true", fakes.ADMIN)
    assert set(everything) == {own, later, foreign}
    assert listed("?all_projects=true&project_id=p2", fakes.ADMIN) == [foreign]
    found = world.error("GET", f"{PATH}?all_projects=true", fakes.MEMBER)
    assert found == (403, codes.FORBIDDEN)


@pytest.mark.parametrize(
    ("members", "status", "code"),
    [
        ({"slots": 0}, 400, codes.INVALID_RESERVATION),
        ({"slots": 1e9}, 400, codes.INVALID_RESERVATION),
        ({"end_at": "2023-11-15T07:00:00"}, 400, codes.INVALID_RESERVATION),
        ({"start_at": "2023-01-01"}, 400, codes.INVALID_RESERVATION),
        ({"end_at": "2033-11-15"}, 400, codes.INVALID_RESERVATION),
        ({"repeat": "hour"}, 400, codes.INVALID_RESERVATION),
        ({"slots": 5}, 409, codes.RESERVATION_CONFLICT),
        ({"host_uuids": ["elsewhere"]}, 404, codes.HOST_NOT_FOUND),
        ({"device_id": "elsewhere"}, 404, codes.DEVICE_NOT_FOUND),
        ({"start_at": "soon"}, 400, codes.INVALID_RESERVATION),
        ({"start_at": 7}, 400, codes.INVALID_REQUEST),
        ({"colour": "red"}, 400, codes.INVALID_REQUEST),
    ],
)
def test_nonsense_is_refused(world, members, status, code):
    found = create(world, fakes.ADMIN, status, **members)
    assert found["code"] == code
    assert not world.conductor.calendar.entries


def test_members_have_a_quota(world):
    assert create(world, status=429, slots=2)["code"] == codes.QUOTA_EXCEEDED
    assert create(world, fakes.ADMIN, slots=2)


def test_hosts_are_those_that_the_caller_sees(world):
    hosts = world.ask("GET", "/v1/hosts", fakes.ADMIN).json["hosts"]
    uuid = hosts[0]["uuid"]
    made = create(world, fakes.ADMIN, host_uuids=[uuid], project_id="p1")
    assert made["host_uuids"] == [uuid]
    seen = world.ask("GET", f"{PATH}/{made['id']}", fakes.MEMBER).json
    (hashed,) = seen["reservation"]["host_uuids"]
    assert hashed != uuid
    # A member reserves with what it sees.
    other = create(world, host_uuids=[hashed])
    (entry,) = (
        one
        for one in world.conductor.calendar.entries.values()
        if one.id == other["id"]
    )
    assert entry.host_uuids == (uuid,)


def test_older_versions_have_none(world):
    headers = {"OpenStack-API-Version": "fpgapool 1.2"}
    answer = world.ask("GET", PATH, fakes.MEMBER, headers=headers)
    assert answer.status_code == 404
    quota = world.ask("GET", "/v1/quotas", fakes.MEMBER, headers=headers)
    assert "reservation_slots" not in quota.json["quota"]
    body = {"quota": {"reservation_slots": 3}}
    found = world.ask(
        "PUT", "/v1/quotas/p1", fakes.ADMIN, body=body, headers=headers
    )
    assert found.status_code == 400


def test_the_quota_counts_what_is_not_over(world):
    create(world)
    create(world, repeat="day", times=3)
    quota = world.ask("GET", "/v1/quotas", fakes.MEMBER).json["quota"]
    assert quota["reservation_slots"]["in_use"] == 2
    assert quota["reservation_times"]["in_use"] == 4
