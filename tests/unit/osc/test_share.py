# SPDX-License-Identifier: Apache-2.0

"""The command for shares."""

from __future__ import annotations

from typing import Any

import pytest

from fpgapool.api.schemas import accounting as schemas
from fpgapool.osc.sdk import accounting as sdk
from fpgapool.osc.v1 import share
from fpgapool.vocabulary import accounting
from tests.unit.osc import fakes

BEFORE = {
    "id": fakes.SESSION_ID,
    "urgent": 0,
    "higher_priority": 1,
    "better_share": 3,
    "own": 2,
    "others": 0,
    "competing": 4,
    "complete": True,
    "users_before": None,
    "user_slots": None,
    "user_limit": None,
}
SHARE: dict[str, Any] = {
    "project_id": "p1",
    "strategy": "fifo",
    "chosen_by": "order",
    "slots": 1,
    "at_limit": False,
    "waiting": 3,
    "used_slot_s": 3600.0,
    "used_part": 0.34,
    "weight": 2.0,
    "weights": 10.0,
    "round_bytes": 8e9,
    "score": -0.69,
    "projects": 5,
    "projects_before": 2,
    "projects_beside": 0,
    "turn_bytes": 4e9,
    "turn_s": 2400.0,
    "path": None,
    "session": BEFORE,
}


def said(**members: Any) -> list[str]:
    return list(accounting.share_sentences({**SHARE, **members}))


def test_a_share_is_explained() -> None:
    assert said() == [
        "Its slots of the last 7 days: 1 h 0 min, 34% of all.",
        "Weight 2 of 10 (20%): 8 GB in each round.",
        "Score -0.69: place 3 of 5 waiting projects. Its turn is when those"
        " before it have used 4 GB, or need no more: in 40 min 0 s if they"
        " have all other slots.",
        "Before it: 6 sessions: 3 of projects with a better share, 1 of its"
        " project with a higher priority, 2 of its project that came before"
        " in the order.",
        "The first in the strategy's order gets the slot.",
    ]


def test_the_user_of_a_session() -> None:
    users = {"users_before": 2, "user_slots": 1, "user_limit": None}
    assert said(session={**BEFORE, **users})[-2] == (
        "Users of its project take turns; its own is number 3."
    )
    users = {"users_before": None, "user_slots": 4, "user_limit": 4}
    assert said(session={**BEFORE, **users})[-2] == (
        "Its user has 4 slots, which is all that one user of the project may"
        " have."
    )


def test_the_way_down_the_tree() -> None:
    path = [
        {"id": "p1", "weight": 1.0, "weights": 4.0},
        {"id": "team", "weight": 2.0, "weights": 3.0},
        {"id": None, "weight": 1.0, "weights": 2.5},
    ]
    assert said(path=path)[2:4] == [
        "It has 1 of 4 (25%) of the part of team.",
        "That has 2 of 3 (67%) of the part of projects not in the tree.",
    ]
    assert said(path=path)[4] == "That has 1 of 2.5 (40%) of the pool."


def test_whose_turn_it_is() -> None:
    assert said(
        score=0.25, projects_before=0, projects_beside=1, session=None
    )[2:] == [
        "Score 0.25: it is its turn, with 1 other project. Others come first"
        " when it has used 2 GB."
    ]


def test_without_shares_and_at_the_limit() -> None:
    found = said(score=None, at_limit=True, session=None)
    assert found[1:] == [
        "Projects have no fair shares: only the order and limits count.",
        "It has all slots that its quota of sessions, or budget, allows.",
    ]


def test_a_strategy_without_an_order() -> None:
    before = {**BEFORE, "own": None, "others": None}
    found = said(chosen_by="joint", session=before)
    assert found[-2].endswith("It competes with 3 others.")
    assert "no order" in found[-1]


def test_the_command() -> None:
    app = fakes.App()
    app.client.get_share.side_effect = lambda **query: sdk.Share(**SHARE)
    row = app.rows(share.ShowShare, "--session", fakes.SESSION_ID)
    assert row["meaning"] == said()
    assert (row["score"], row["session"]) == (-0.69, BEFORE)
    app.client.get_share.assert_called_once_with(session_id=fakes.SESSION_ID)


def test_everything_that_the_api_says_is_known() -> None:
    member = schemas.SHARE["response"]["properties"]["share"]
    assert set(member["properties"]) <= set(sdk.Share().to_dict())


@pytest.mark.parametrize("text", ["3f2c", "", "aes", fakes.SESSION_ID[:-1]])
def test_a_part_of_an_id_is_none(
    capsys: pytest.CaptureFixture[str], text: str
) -> None:
    app = fakes.App()
    with pytest.raises(SystemExit):
        app.run(share.ShowShare, "--session", text)
    assert (
        f"argument --session: {text!r} is not the whole ID of a session, which"
        " is a UUID; see 'openstack fpga session list'"
    ) in " ".join(capsys.readouterr().err.split())
    app.client.get_share.assert_not_called()
