# SPDX-License-Identifier: Apache-2.0

"""Goals of groups in a pool that refuses those that it cannot reach."""

from __future__ import annotations

import datetime
import pathlib
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from openstack import exceptions

from fpgapool import client
from tests.functional.allinone import harness
from tests.functional.allinone import tasksite
from tests.harness import waiting

CONFIG = """
[scheduler]
elasticity = hybrid
[agent]
report_interval_s = 0.5
"""
ACTIONS = 100_000_000
_EARLIEST = re.compile(r"earliest deadline is in (\d+) s \(GOAL_INFEASIBLE\)")


@pytest.fixture
def site() -> Iterator[tasksite.Site]:
    """Give a pool of two slots."""
    with harness.short_directory() as run_dir:
        config = pathlib.Path(run_dir, "goals.conf")
        config.write_text(CONFIG)
        with harness.Pool(
            run_dir,
            *(*harness.SMALL, "--unlimited", "--api-port=0"),
            f"--config-file={config}",
        ) as pool:
            url = pool.wait_until_ready()["api_url"]
            yield tasksite.Site(pool, url, pathlib.Path(run_dir))


def within(time_s: float, actions: int) -> dict[str, Any]:
    """Return a goal: a deadline so many seconds from now."""
    due = datetime.datetime.now(datetime.UTC)
    due += datetime.timedelta(seconds=time_s)
    return {"deadline_at": due.isoformat(), "actions": actions}


@pytest.mark.long
def test_a_deadline_that_does_not_fit_is_told_the_earliest_that_does(
    site: tasksite.Site,
) -> None:
    elastic = {"accelerator": "copy", "size": 1, "elastic": True}
    limits = {"min_size": 0, "max_size": 2}
    first = site.user.create_group(
        name="first", goal=within(600.0, ACTIONS // 1000), **elastic, **limits
    )
    with client.group_open(
        "first",
        front_door=client.PoolApi.at(site.url),
        timeout_s=harness.LIMIT_S,
    ) as opened:

        def is_measured() -> bool:
            assert list(opened.map([b"x"] * 20)) == [b"x"] * 20
            goal = site.user.get_group(first.id).goal
            return bool(goal["expected_finish_at"])

        waiting.wait_until(is_measured, "a measured goal", harness.LIMIT_S)

        def refusal(time_s: float) -> int:
            """Return the earliest deadline of a refusal, in s from now."""
            with pytest.raises(exceptions.HttpException) as caught:
                site.user.create_group(
                    name="second", goal=within(time_s, ACTIONS), **elastic
                )
            assert caught.value.status_code == 409
            found = _EARLIEST.search(str(caught.value))
            assert found, str(caught.value)
            return int(found[1])

        earliest_s = refusal(2.0)
        assert earliest_s > 2
        # It is what the same goal would need, and not what was asked for.
        asked_at = time.monotonic()
        again_s = refusal(earliest_s / 2)
        passed_s = time.monotonic() - asked_at
        assert again_s >= earliest_s / 2 - passed_s
        # Nothing is left of them.
        assert [one.name for one in site.user.groups()] == ["first"]
        assert opened.run(b"x", timeout_s=harness.LIMIT_S) == b"x"
        # Speeds differ from moment to moment, but not so much.
        second = site.user.create_group(
            name="second",
            goal=within(100.0 * max(earliest_s, again_s), ACTIONS),
            **elastic,
        )
        assert second.goal["actions"] == ACTIONS
    for group in (first, second):
        site.user.delete_group(group.id)
    site.wait_until_gone()
