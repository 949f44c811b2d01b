# SPDX-License-Identifier: Apache-2.0

"""Commands for budgets."""

from __future__ import annotations

from typing import Any

import pytest
from openstack import exceptions

from fpgapool.osc.sdk import accounting as sdk
from fpgapool.osc.v1 import budget
from tests.unit.osc import fakes

PROJECT_ID = "5f0e6b7c9a1d4e2f8b3c7d9e0a1b2c3d"


@pytest.fixture
def app() -> fakes.App:
    made = fakes.App()
    made.know_projects({"research": PROJECT_ID})
    made.client.get_budget.side_effect = lambda project_id: found()
    made.client.set_budget.side_effect = lambda project_id, **new: found()
    made.client.budgets.side_effect = lambda **query: iter([found()])
    return made


def found(**members: Any) -> sdk.Budget:
    amounts = {"limit": 10, "carried": 2.0, "used": 3.0, "open": 1.0}
    return sdk.Budget(
        **{
            "project_id": PROJECT_ID,
            "source": "project",
            "period": "week",
            "action": "finish",
            "carry_over": True,
            "state": "within",
            "begins": "2030-06-03",
            "refills": "2030-06-10",
            "slot_s": {**amounts, "left": 8.0},
            "bytes": None,
            "energy_j": None,
        }
        | members
    )


def test_what_is_left_is_shown(app: fakes.App) -> None:
    (row,) = app.rows(budget.ListBudgets, "--all-projects")
    assert row["Project ID"] == PROJECT_ID
    assert row["Slot S"]["left"] == 8.0
    app.client.budgets.assert_called_once_with(all_projects=True)
    left = budget._FORMATTERS["slot_s"](row["Slot S"])
    assert left.human_readable() == "8 s of 12 s left"
    odd = {**row["Slot S"], "left": 1_239.5547998, "limit": 12_345}
    left = budget._FORMATTERS["slot_s"](odd)
    assert left.human_readable() == "1,240 s of 12,347 s left"
    assert budget._FORMATTERS["bytes"](None).human_readable() == "unlimited"


def test_the_rest_of_a_budget_stays(app: fakes.App) -> None:
    app.run(budget.SetBudget, "--bytes", "2G", "--no-carry-over", "research")
    app.client.set_budget.assert_called_once_with(
        PROJECT_ID,
        slot_s=10,
        bytes=2 * 10**9,
        energy_j=None,
        period="week",
        action="finish",
        carry_over=False,
    )


@pytest.mark.parametrize("source", ["default", None])
def test_a_new_budget_has_what_is_given(
    app: fakes.App, source: str | None
) -> None:
    def get(project_id: str) -> sdk.Budget:
        if source is None:
            raise exceptions.NotFoundException("no budget")
        return found(source=source)

    app.client.get_budget.side_effect = get
    app.run(budget.SetBudget, "--slot-s", "5", "--no-bytes", "research")
    app.client.set_budget.assert_called_once_with(
        PROJECT_ID, slot_s=5, bytes=None
    )


@pytest.mark.parametrize("limit", ["0", "-1", "1.5", "9e99", "x"])
def test_limits_are_whole_and_positive(app: fakes.App, limit: str) -> None:
    with pytest.raises(SystemExit):
        app.run(budget.SetBudget, f"--slot-s={limit}", "research")
    app.client.set_budget.assert_not_called()


def test_nothing_to_set_is_an_error(app: fakes.App) -> None:
    with pytest.raises(Exception, match="at least one option"):
        app.run(budget.SetBudget, "research")


def test_the_own_budget(app: fakes.App) -> None:
    app.run(budget.ShowBudget)
    app.client.budgets.assert_called_once_with()
    app.client.budgets.side_effect = lambda: iter([])
    with pytest.raises(Exception, match="no budget"):
        app.run(budget.ShowBudget)


def test_options_of_a_project_need_one(app: fakes.App) -> None:
    # The parser completes this to --project-domain.
    with pytest.raises(Exception, match="need a project"):
        app.run(budget.ShowBudget, "--project", "research")
    app.client.budgets.assert_not_called()


def test_a_budget_is_deleted(app: fakes.App) -> None:
    app.run(budget.DeleteBudget, "research")
    app.client.delete_budget.assert_called_once_with(PROJECT_ID)
