# SPDX-License-Identifier: Apache-2.0

"""Reservations in the API."""

import pytest

from fpgapool.conductor.decisions.calendar import book
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import reservation
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


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"name": "n" * 10_000}, codes.INVALID_REQUEST),
        ({"name": "n" * 65}, codes.INVALID_RESERVATION),
        ({"name": "a\nb"}, codes.INVALID_REQUEST),
        ({"name": "a\x00"}, codes.INVALID_REQUEST),
        ({"name": ""}, codes.INVALID_REQUEST),
        ({"grace_s": -1}, codes.INVALID_RESERVATION),
        ({"grace_s": None}, codes.INVALID_REQUEST),
        ({"end_at": fakes.RESERVED["start_at"]}, codes.INVALID_RESERVATION),
        ({"start_at": "2023-11-14T22:12:19"}, codes.INVALID_RESERVATION),
        ({"host_uuids": ["h"] * 101}, codes.INVALID_REQUEST),
        ({"repeat": "day", "end_at": "2023-11-16T09:00:00"}, None),
        ({"start_at": "2023-11-15T08:00:00+99:00"}, None),
        ({"start_at": "0001-01-01T00:00:00+23:59"}, None),
        ({"end_at": "9999-12-31T23:59:59-23:59"}, None),
        # A day with an offset is no time of the day.
        ({"start_at": "2023-11-15+08:00"}, None),
        ({"start_at": "2023-11-15-08:00"}, None),
        ({"start_at": "2023-11-15-08"}, None),
        ({"start_at": "20231115+0800"}, None),
        ({"start_at": "2023-11-15X08:00"}, None),
        ({"start_at": "2023-11-15\x0008:00"}, None),
        # How often?
        ({"repeat": "day"}, None),
        ({"repeat": "week"}, None),
    ],
)
def test_bad_changes_change_nothing(world, members, code):
    path = f"{PATH}/{create(world)['id']}"
    before = world.ask("GET", path, fakes.MEMBER).json
    wanted = (400, code or codes.INVALID_RESERVATION)
    body = {"reservation": members}
    assert world.error("PATCH", path, fakes.MEMBER, body=body) == wanted
    assert world.ask("GET", path, fakes.MEMBER).json == before
    assert create(world, status=400, **members)["code"] == wanted[1]
    assert len(world.conductor.calendar.entries) == 1


def test_very_many_hosts_are_not_read(world):
    body = {"reservation": {**fakes.RESERVED, "host_uuids": ["h"] * 100_000}}
    found = world.error("POST", PATH, fakes.MEMBER, body=body)
    assert found == (413, codes.BODY_TOO_LARGE)


def test_the_same_host_may_be_named_again(world):
    hosts = world.ask("GET", "/v1/hosts", fakes.ADMIN).json["hosts"]
    uuid = hosts[0]["uuid"]
    made = create(world, fakes.ADMIN, host_uuids=[uuid] * 100)
    assert made["host_uuids"] == [uuid]


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 400])
@pytest.mark.parametrize("name", ["grace_s", "slots", "times"])
def test_numbers_may_be_too_large(world, name, number):
    path = f"{PATH}/{create(world)['id']}"
    body = f'{{"reservation": {{"{name}": {number}}}}}'.encode()
    found = world.error("PATCH", path, fakes.MEMBER, body=body)
    assert found == (400, codes.INVALID_RESERVATION)


@pytest.mark.parametrize(
    "start",
    [
        "2023-11-15",
        "20231115T0000",
        "2023-W46-3 00:00",
        "2023-11-15 01:00+01:00",
        "2023-11-15T00:00:00Z",
    ],
)
def test_times_have_the_forms_of_iso_8601(world, start):
    found = create(world, start_at=start)
    assert found["start_at"] == "2023-11-15T00:00:00.000000Z"


def test_errors_name_times_as_requests_do(world):
    found = create(world, status=400, end_at="9999-01-01T00:00:00Z")
    assert "end_at must be in the years 1970 to 5138" in found["detail"]
    with pytest.raises(reservation.Invalid) as refused:
        reservation.changed({"repeat": "day"}, {"start_s": 1.0}, begun=True)
    assert str(refused.value) == (
        "start_at cannot change while the reservation runs; only name,"
        " end_at, grace_s can"
    )


def test_times_have_offsets(world):
    """A day that recurs has 24 hours, whatever clocks do there."""
    found = create(
        world,
        # The day before clocks change in Berlin.
        start_at="2024-03-30T08:00:00+01:00",
        end_at="2024-03-30T10:00:00+02:00",
        repeat="day",
        times=2,
    )
    assert found["start_at"] == "2024-03-30T07:00:00.000000Z"
    assert found["end_at"] == "2024-03-30T08:00:00.000000Z"
    (entry,) = world.conductor.calendar.entries.values()
    first, second = book.spans_of(entry)
    assert second.start_s - first.start_s == 24 * 3600


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
