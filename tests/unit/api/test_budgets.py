# SPDX-License-Identifier: Apache-2.0

"""Budgets in the API."""

import pytest

from fpgapool.vocabulary import budget
from fpgapool.vocabulary import codes
from tests.unit.api import fakes

OWN = "/v1/budgets/p1"
FOREIGN = "/v1/budgets/p2"


def put(world, path=FOREIGN, **members):
    answer = world.ask("PUT", path, fakes.ADMIN, body={"budget": members})
    assert answer.status_code == 200
    return answer.json["budget"]


def listed(world, path="/v1/budgets", token=fakes.MEMBER):
    found = []
    while path:
        answer = world.ask("GET", path, token)
        assert answer.status_code == 200
        found += [one["project_id"] for one in answer.json["budgets"]]
        links = answer.json.get("budgets_links")
        path = links and links[0]["href"]
        path = path and path[path.index("/v1") :]
    return found


def test_a_budget_is_set_and_shown(world):
    found = put(world, OWN, slot_s=10, carry_over=True, action="finish")
    assert found.pop("links")[0]["href"].endswith(OWN)
    assert found == {
        "project_id": "p1",
        "source": "project",
        "period": "month",
        "action": "finish",
        "carry_over": True,
        "state": "within",
        "begins": "2030-06-01",
        "refills": "2030-07-01",
        "slot_s": {
            "limit": 10,
            "carried": 10.0,
            "used": 4.0,
            "open": 0.0,
            "left": 16.0,
        },
        "bytes": None,
        "energy_j": None,
    }
    answer = world.ask("GET", OWN, fakes.READER)
    assert answer.json["budget"]["slot_s"]["left"] == 16.0


def test_lists_have_pages(world):
    assert listed(world) == []
    for project_id in ("p1", "p2", "p3", "p4", "p5"):
        put(world, f"/v1/budgets/{project_id}", slot_s=1)
    assert listed(world) == ["p1"]
    assert listed(world, "/v1/budgets?limit=1") == ["p1"]
    for query in ("", "&limit=1", "&limit=3"):
        path = f"/v1/budgets?all_projects=true{query}"
        assert listed(world, path, fakes.ADMIN) == [
            f"p{number}" for number in range(1, 6)
        ]
    found = world.error("GET", "/v1/budgets?all_projects=true", fakes.MEMBER)
    assert found == (403, codes.FORBIDDEN)


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"period": "day"},
        {"slot_s": None},
        {"slot_s": 0},
        {"slot_s": -1},
        {"bytes": 1.5},
        {"energy_j": budget.MAX_LIMIT + 1},
        {"slot_s": 1e300},
        {"slot_s": 1, "period": "year"},
        {"slot_s": 1, "action": "explode"},
    ],
)
def test_nonsense_has_a_code_and_changes_nothing(world, members):
    put(world, slot_s=7)
    before = dict(world.conductor.budgets)
    found = world.error("PUT", FOREIGN, fakes.ADMIN, body={"budget": members})
    assert found == (400, codes.INVALID_BUDGET)
    assert world.conductor.budgets == before


def test_other_projects_are_for_administrators(world):
    put(world, slot_s=7)
    assert world.error("GET", FOREIGN, fakes.MEMBER) == (
        404,
        codes.PROJECT_NOT_FOUND,
    )
    body = {"budget": {"slot_s": 1}}
    for path in (OWN, FOREIGN):
        for method, sent in (("PUT", body), ("DELETE", None)):
            found = world.error(method, path, fakes.MEMBER, body=sent)
            assert found == (403, codes.FORBIDDEN)


def test_no_budget(world):
    missing = (404, codes.BUDGET_NOT_FOUND)
    assert world.error("GET", OWN, fakes.MEMBER) == missing
    assert world.error("DELETE", FOREIGN, fakes.ADMIN) == missing
    put(world, slot_s=7)
    assert world.ask("DELETE", FOREIGN, fakes.ADMIN).status_code == 204
    assert world.error("DELETE", FOREIGN, fakes.ADMIN) == missing


def test_the_default_is_not_deleted(world):
    put(world, slot_s=7)
    world.conductor.budgets["p2"]["source"] = "default"
    missing = (404, codes.BUDGET_NOT_FOUND)
    assert world.error("DELETE", FOREIGN, fakes.ADMIN) == missing


def test_earlier_versions_have_no_budgets(world):
    answer = world.ask(
        "GET",
        OWN,
        fakes.MEMBER,
        headers={"OpenStack-API-Version": "fpgapool 1.1"},
    )
    assert answer.status_code == 404
