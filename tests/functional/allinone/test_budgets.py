# SPDX-License-Identifier: Apache-2.0

"""Budgets in a pool, through its REST API and the client library."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from openstack import exceptions

from fpgapool import client
from tests.functional.allinone import groupsite
from tests.functional.allinone import harness
from tests.harness import waiting

#: More than the pool has time for.
PLENTY = 10**9


class Site(groupsite.Site):
    """The same, with a front door."""

    door: str

    def run(self, size_bytes: int = 1000) -> None:
        """Let a session of the project of the front door be served."""
        data = bytes(size_bytes)
        output, _ = client.run_buffer("copy", data, front_door=self.door)
        assert output == data


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Give a pool of two slots."""
    with harness.short_directory() as run_dir:
        with harness.Pool(run_dir, *harness.SMALL, "--api-port=0") as pool:
            url = pool.wait_until_ready()["api_url"]
            made = Site(pool, url, pathlib.Path(run_dir))
            made.door = pool.front_door()
            yield made


def test_bytes_are_counted_refused_and_raised(site: Site) -> None:
    site.run()
    (row,) = waiting.wait_until(
        lambda: [one for one in site.rows("usage") if one["sessions"]],
        "usage",
        harness.LIMIT_S,
    )
    project_id = row["project_id"]
    # The session was there before the budget.
    budget = site.admin.set_budget(project_id, bytes=4000, slot_s=PLENTY)
    assert budget.bytes["used"] == 2000
    assert budget.slot_s["used"] > 0
    found = client.acc_dry_run("copy", 1000, front_door=site.door)
    assert found.budget_pct == pytest.approx(100.0)
    site.run()
    waiting.wait_until(
        lambda: site.admin.get_budget(project_id).state == "exhausted",
        "an exhausted budget",
        harness.LIMIT_S,
    )
    with pytest.raises(client.errors.LimitReached) as caught:
        site.run()
    assert caught.value.code == "BUDGET_EXHAUSTED"
    assert [
        one.project_id for one in site.admin.budgets(all_projects=True)
    ] == [project_id]
    raised = site.admin.set_budget(project_id, bytes=10_000)
    assert raised.state == "within"
    assert raised.bytes["left"] == 6000
    site.run()
    site.admin.delete_budget(project_id)
    with pytest.raises(exceptions.NotFoundException):
        site.admin.get_budget(project_id)


@pytest.mark.parametrize(
    "wrong",
    [
        {"slot_s": 0},
        {"slot_s": -1},
        {"bytes": 2**60},
        {"slot_s": 1, "period": "year"},
    ],
)
def test_nonsense_changes_nothing(site: Site, wrong: dict[str, int]) -> None:
    with pytest.raises(exceptions.BadRequestException, match="INVALID_BUDGET"):
        site.admin.set_budget("p1", **wrong)
    assert list(site.mine.budgets()) == []
