# SPDX-License-Identifier: Apache-2.0

"""Shares in the API."""

import datetime

import oslo_messaging as messaging
import pytest

from fpgapool.api.backends import recent
from fpgapool.vocabulary import codes
from tests.unit.api import fakes

ID = fakes.view(1).session_id
LATEST = {"OpenStack-API-Version": "fpgapool latest"}


def share_of(world, query="", token=fakes.READER):
    answer = world.ask("GET", f"/v1/share{query}", token)
    assert answer.status_code == 200, answer.text
    return answer.json["share"]


def test_the_own_share(world):
    share = share_of(world)
    assert (share["project_id"], share["weight"]) == ("p1", 2.0)
    assert (share["used_slot_s"], share["used_part"]) == (0, 0)
    assert share["session"] is None


def test_what_was_used_lately(world):
    today = datetime.datetime.now(datetime.UTC).date()
    world.database.usage = [
        fakes.used(day, project)
        for project, day in (("p1", 1), ("p1", 2), ("p2", 1), ("p2", 2))
    ]
    found = recent.slot_s(world.database, "p1")
    assert found == 15.0
    asked = world.database.asked[-1]
    assert asked["first_day"] == today - datetime.timedelta(6)
    share = share_of(world)
    assert (share["used_slot_s"], share["used_part"]) == (15.0, 0.5)


def test_what_is_before_a_session(world):
    found = share_of(world, f"?session_id={ID.upper()}")["session"]
    assert (found["id"], found["better_share"]) == (ID, 3)


@pytest.mark.parametrize(
    "session_id",
    ["00000000-0000-0000-0000-000000000000", fakes.view(3).session_id],
)
def test_sessions_that_are_not_the_projects(world, session_id):
    world.conductor.views[fakes.view(3).session_id] = fakes.view(
        3, project_id="p2"
    )
    found = world.error(
        "GET", f"/v1/share?session_id={session_id}", fakes.MEMBER
    )
    assert found == (404, codes.SESSION_NOT_FOUND)


def test_shares_of_others_are_for_administrators(world):
    found = world.error("GET", "/v1/share?project_id=p2", fakes.MEMBER)
    assert found == (403, codes.FORBIDDEN)
    assert share_of(world, "?project_id=p2", fakes.ADMIN)["project_id"] == "p2"


@pytest.mark.parametrize("query", ["session_id=x", "project_id=", "user=x"])
def test_what_is_no_question(world, query):
    found = world.error("GET", f"/v1/share?{query}", fakes.MEMBER)
    assert found == (400, codes.INVALID_REQUEST)


def test_only_a_conductor_knows(world):
    def fail():
        raise messaging.MessagingTimeout()

    world.conductor._fail = fail
    found = world.error("GET", "/v1/share", fakes.MEMBER)
    assert found == (503, codes.CONDUCTOR_UNAVAILABLE)
