# SPDX-License-Identifier: Apache-2.0

"""Quotas and usage in the API."""

import json
import random

import pytest

from fpgapool.common import exception
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from tests.unit.api import fakes

FOREIGN = "/v1/quotas/p2"
RESOURCES = (
    *("sessions", "queued", "queued_bytes", "bitstream_bytes"),
    *("groups", "group_slots", "group_clients", "max_priority"),
    *("reservation_slots", "reservation_times", "live_per_user"),
    *("sessions_per_user", "user_turns"),
)


def quota_of(answer):
    assert answer.status_code == 200
    return answer.json["quota"]


def test_everybody_sees_what_the_own_project_may_use(world):
    for token in (fakes.READER, fakes.MEMBER):
        for path in ("/v1/quotas", "/v1/quotas/p1"):
            quota = quota_of(world.ask("GET", path, token))
            assert quota["project_id"] == "p1"
            used = {
                resource: quota[resource].pop("in_use")
                for resource in RESOURCES
            }
            assert used == {
                "sessions": 1,
                "queued": 3,
                "queued_bytes": 3000,
                "bitstream_bytes": 0,
                "groups": 0,
                "group_slots": 0,
                "group_clients": 0,
                "max_priority": 0,
                "reservation_slots": 0,
                "reservation_times": 0,
                "live_per_user": 0,
                "sessions_per_user": 0,
                "user_turns": 0,
            }
            for resource in RESOURCES:
                assert quota[resource] == {"limit": 20, "source": "default"}


@pytest.mark.parametrize(
    "resource", ["live_per_user", "sessions_per_user", "user_turns"]
)
def test_a_limit_by_user_belongs_to_later_versions(world, resource):
    path, body = "/v1/quotas/p1", {"quota": {resource: 1}}
    for version in ("1.0", "1.2"):
        headers = {"OpenStack-API-Version": f"fpgapool {version}"}
        for shown in (path, "/v1/quotas/defaults"):
            answer = world.ask("GET", shown, fakes.ADMIN, headers=headers)
            assert resource not in quota_of(answer)
        found = world.error(
            "PUT", path, fakes.ADMIN, body=body, headers=headers
        )
        assert found == (400, codes.INVALID_REQUEST)
    answer = world.ask("PUT", path, fakes.ADMIN, body=body)
    assert quota_of(answer)[resource]["limit"] == 1
    assert world.conductor.quotas["p1"] == {resource: 1}


def test_turns_are_on_or_off(world):
    found = world.error(
        "PUT", "/v1/quotas/p1", fakes.ADMIN, body={"quota": {"user_turns": 2}}
    )
    assert found == (400, codes.INVALID_REQUEST)
    assert "p1" not in world.conductor.quotas


def test_other_projects_are_for_administrators(world):
    for method, body in (("DELETE", None), ("PUT", {})):
        found = world.error(method, FOREIGN, fakes.MEMBER, body=body)
        assert found == (403, codes.FORBIDDEN), method
    assert quota_of(world.ask("GET", FOREIGN, fakes.ADMIN))


def test_the_own_quota_is_not_for_tenants_to_set(world):
    body = {"quota": {"sessions": -1}}
    for token in (fakes.MEMBER, "meg:p1:manager,member,reader"):
        found = world.error("PUT", "/v1/quotas/p1", token, body=body)
        assert found == (403, codes.FORBIDDEN)
        found = world.error("DELETE", "/v1/quotas/p1", token)
        assert found == (403, codes.FORBIDDEN)
    assert world.conductor.quotas == {}


def test_defaults_say_nothing_of_use(world):
    quota = quota_of(world.ask("GET", "/v1/quotas/defaults"))
    assert quota["sessions"] == {"limit": 20, "source": "default"}
    assert set(quota) == set(RESOURCES)


def test_limits_are_set_one_by_one_and_taken_back(world):
    def put(**limits):
        body = {"quota": limits}
        return quota_of(world.ask("PUT", FOREIGN, fakes.ADMIN, body=body))

    assert put(sessions=4)["sessions"] == {
        "limit": 4,
        "in_use": 1,
        "source": "project",
    }
    quota = put(queued=-1, queued_bytes=1e9)
    assert quota["sessions"]["limit"] == 4
    assert quota["queued"]["limit"] == -1
    assert type(quota["queued_bytes"]["limit"]) is int
    assert put(sessions=None)["sessions"]["source"] == "default"
    assert world.ask("DELETE", FOREIGN, fakes.ADMIN).status_code == 204
    assert world.conductor.quotas == {"p2": {}}


def test_budgets_stay_when_limits_are_taken_back(world):
    """They are rows of the same table."""
    world.conductor.quotas["p2"] = {"sessions": 4, "budget.bytes": 9}
    assert world.ask("DELETE", FOREIGN, fakes.ADMIN).status_code == 204
    assert world.conductor.quotas == {"p2": {"budget.bytes": 9}}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"quota": {}},
        {"quota": None},
        {"quota": {"sessions": -2}},
        {"quota": {"sessions": "4"}},
        {"quota": {"sessions": True}},
        {"quota": {"sessions": 1.5}},
        {"quota": {"sessions": 2**63}},
        {"quota": {"sessions": 1e300}},
        {"quota": {"sessions": [4]}},
        {"quota": {"cores": 4}},
        {"quota": {"sessions": 4, "project_id": "p3"}},
        {"quota": {"sessions": 4}, "force": True},
    ],
)
def test_what_is_no_quota_changes_nothing(world, body):
    world.conductor.quotas["p2"] = {"queued": 7}
    found = world.error("PUT", FOREIGN, fakes.ADMIN, body=body)
    assert found == (400, codes.INVALID_REQUEST)
    assert world.conductor.quotas == {"p2": {"queued": 7}}


def test_deep_bodies_are_refused(world):
    depth = 20_000
    deep = b'{"quota": ' + b"[" * depth + b"]" * depth + b"}"
    answer = world.ask("PUT", FOREIGN, fakes.ADMIN, body=deep, check=False)
    assert answer.status_code == 400
    assert world.conductor.quotas == {}


def test_limits_of_keystone_are_those_that_the_leader_has(world):
    object.__setattr__(world.backends, "default_limits", None)
    quota = quota_of(world.ask("GET", "/v1/quotas"))
    assert quota["queued"] == {"limit": 10, "source": "keystone", "in_use": 3}
    assert "novelty" not in quota
    quota = quota_of(world.ask("GET", "/v1/quotas/defaults"))
    assert quota["queued"] == {"limit": 10, "source": "keystone"}


def test_what_keystone_keeps_is_set_there(world):
    world.conductor.failure = exception.QuotasInKeystone()
    body = {"quota": {"sessions": 4}}
    answer = world.ask("PUT", FOREIGN, fakes.ADMIN, body=body)
    (error,) = answer.json["errors"]
    assert (answer.status_code, error["code"]) == (
        409,
        codes.QUOTAS_IN_KEYSTONE,
    )
    assert "openstack limit set" in error["detail"]
    found = world.error("DELETE", FOREIGN, fakes.ADMIN)
    assert found == (409, codes.QUOTAS_IN_KEYSTONE)


def test_changes_are_audited(world, caplog):
    with caplog.at_level("INFO", logger="fpgapool.audit"):
        world.ask("PUT", FOREIGN, fakes.ADMIN, body={"quota": {"sessions": 4}})
        world.error("DELETE", FOREIGN, fakes.MEMBER)
    done, denied = (
        json.loads(line.getMessage())
        for line in caplog.records
        if line.name == "fpgapool.audit"
    )
    assert "fpgapool:quotas:update" in done["action"]
    assert (done["outcome"], denied["outcome"]) == ("done", "denied")
    assert done["target_projects"] == ["p2"]
    assert done["target"]["project_id"] == "p2"
    assert done["values"] == {"quota": {"sessions": 4}}
    assert done["before"] == {"sessions": None}


@pytest.mark.parametrize(
    ("method", "body", "before"),
    [
        ("PUT", {"quota": {"sessions": 4}}, {"sessions": 7}),
        ("DELETE", None, {"sessions": 7, "queued": None}),
    ],
)
def test_the_audit_log_says_which_quota_was_changed(
    world, caplog, method, body, before
):
    world.database.limits = [
        db_api.QuotaRecord(
            id=number, project_id=project, resource=resource, hard_limit=limit
        )
        for number, (project, resource, limit) in enumerate(
            [("p2", "sessions", 7), ("p1", "queued", 8)]
        )
    ]
    caplog.set_level("INFO", "fpgapool.audit")
    world.ask(method, FOREIGN, fakes.ADMIN, body=body)
    (line,) = (
        json.loads(one.getMessage())
        for one in caplog.records
        if one.name == "fpgapool.audit"
    )
    assert before.items() <= line["before"].items()


# -- usage ------------------------------------------------------------------


@pytest.fixture
def usage(world):
    world.database.usage = [
        fakes.used(day, project, energy_j=energy_j)
        for day in (1, 2, 3)
        for project, energy_j in (("p1", None), ("p2/ü", 12.5))
    ]
    return world


def test_usage_is_ones_own(usage):
    document = usage.ask("GET", "/v1/usage", fakes.READER).json
    assert document == {
        "usage": [
            {
                "id": f"2026-05-0{day}/p1/copy",
                "day": f"2026-05-0{day}",
                "project_id": "p1",
                "accelerator": "copy",
                "sessions": 2,
                "sessions_met": 0,
                "sessions_missed": 0,
                "slot_s": 7.5,
                "group_busy_s": 2.5,
                "group_idle_s": 1.5,
                "input_bytes": 700,
                "output_bytes": 700,
                "energy_j": None,
                "energy_j_per_sla": None,
            }
            for day in (1, 2, 3)
        ]
    }


@pytest.mark.parametrize(
    ("energy_j", "met", "per_sla"),
    [(12.0, 4, 3.0), (12.0, 0, None), (None, 4, None), (0.0, 4, 0.0)],
)
def test_energy_is_told_for_each_kept_deadline(world, energy_j, met, per_sla):
    world.database.usage = [
        fakes.used(1, "p1", energy_j=energy_j, sessions_met=met)
    ]
    (found,) = world.ask("GET", "/v1/usage").json["usage"]
    assert (found["energy_j"], found["energy_j_per_sla"]) == (
        energy_j,
        per_sla,
    )


def test_usage_of_others_is_for_administrators(usage):
    for query in ("all_projects=true", "project_id=p2"):
        found = usage.error("GET", f"/v1/usage?{query}", fakes.MEMBER)
        assert found == (403, codes.FORBIDDEN)
        answer = usage.ask("GET", f"/v1/usage?{query}", fakes.ADMIN)
        assert answer.status_code == 200
    assert [one["project_id"] for one in usage.database.asked] == [None, "p2"]


def test_usage_is_paged_with_any_names(usage):
    path = "/v1/usage?all_projects=true&limit=2"
    pages = usage.pages(path, fakes.ADMIN)
    days = [[(one["day"], one["energy_j"]) for one in page] for page in pages]
    assert days == [
        [(f"2026-05-0{day}", None), (f"2026-05-0{day}", 12.5)]
        for day in (1, 2, 3)
    ] + [[]]


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", {"keys": ("day", "project_id", "accelerator")}),
        ("group_by=project", {"keys": ("project_id",)}),
        ("group_by=day", {"keys": ("day",)}),
        ("accelerator=aes", {"accelerator": "aes"}),
        ("start=2026-05-01&end=2026-05-01", {}),
    ],
)
def test_usage_is_filtered_by_the_database(usage, query, options):
    assert usage.ask("GET", f"/v1/usage?{query}").status_code == 200
    (asked,) = usage.database.asked
    assert asked.items() >= options.items()
    if "start" in query:
        assert str(asked["first_day"]) == str(asked["last_day"])


@pytest.mark.parametrize(
    "query",
    [
        "start=yesterday",
        "start=2026-02-30",
        "end=2026-1-1",
        "start=2026-05-02&end=2026-05-01",
        "group_by=board",
        "marker=2026-05-01",
        "marker=x/p1/copy",
        "group_by=day&marker=x",
        "limit=0",
        "project_id=",
        "sort_key=day",
    ],
)
def test_what_is_no_question_about_usage(usage, query):
    found = usage.error("GET", f"/v1/usage?{query}", fakes.READER)
    assert found == (400, codes.INVALID_REQUEST)


def test_no_marker_makes_the_service_fail(usage):
    rng = random.Random(7)
    letters = "2026-05-01/%20%ff%00é+&"
    for _ in range(300):
        marker = "".join(rng.choices(letters, k=rng.randrange(1, 30)))
        answer = usage.ask("GET", "/v1/usage", params={"marker": marker})
        assert answer.status_code in (200, 400), marker
