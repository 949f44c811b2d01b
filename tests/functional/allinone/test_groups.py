# SPDX-License-Identifier: Apache-2.0

"""Groups in a pool, through its REST API, the SDK and the commands."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from openstack import exceptions

from fpgapool.osc.sdk import group as sdk
from tests.functional.allinone import groupsite
from tests.functional.allinone import harness
from tests.harness import waiting

ELASTIC = {"min_size": 1, "max_size": 4, "elastic": True}


@pytest.fixture(scope="module")
def site() -> Iterator[groupsite.Site]:
    """Give a pool of two slots."""
    with harness.short_directory() as run_dir:
        state_dir = pathlib.Path(run_dir)
        with harness.Pool(run_dir, *harness.SMALL, "--api-port=0") as pool:
            url = pool.wait_until_ready()["api_url"]
            yield groupsite.Site(pool, url, state_dir)


@pytest.fixture(autouse=True)
def nothing_left(site: groupsite.Site) -> Iterator[None]:
    """Delete the groups of a test that has failed; the slots are free."""
    yield
    for group in site.admin.groups(all_projects=True):
        if group.state != "DRAINING":
            site.admin.delete_group(group.id)
    site.wait_until_gone()


def refused(code: str, act: Any, *arguments: Any, **options: Any) -> None:
    """Check that a request is refused with a code."""
    with pytest.raises(exceptions.HttpException, match=rf"\({code}\)"):
        act(*arguments, **options)


def test_the_life_of_a_group(site: groupsite.Site) -> None:
    mine = site.mine
    group: sdk.Group = mine.create_group(
        name="render", accelerator="aes", size=2, **ELASTIC
    )
    assert group.size == 2
    # A first member may have joined already.
    assert group.state in ("CREATING", "RESIZING")
    assert [one.id for one in mine.groups(name="render")] == [group.id]
    group = site.wait_members(group.id, 2)
    assert {(one["device"], one["slot"]) for one in group.members} == {
        ("board0", 0),
        ("board0", 1),
    }
    assert mine.update_group(group.id, max_size=3).max_size == 3
    goal = mine.set_group_goal(group.id, rate_per_s=2.5).goal
    assert (goal["kind"], goal["rate_per_s"]) == ("rate", 2.5)
    (row,) = site.rows("groups")
    assert (row["max_size"], row["goal_kind"]) == (3, "rate")

    first = mine.attach_group_client(group.id)
    second = mine.attach_group_client(group.id)
    assert len(first.secret) == 64
    rows = site.rows("group_clients")
    assert {row["client_id"] for row in rows} == {first.id, second.id}
    assert first.secret not in repr(rows)
    quota = mine.get_quota()
    used = [
        getattr(quota, name)["in_use"]
        for name in ("groups", "group_slots", "group_clients")
    ]
    assert used == [1, 3, 2]

    mine.revoke_group_client(group.id, first.id, ignore_missing=False)
    refused(
        "GROUP_CLIENT_NOT_FOUND",
        mine.revoke_group_client,
        group.id,
        first.id,
        ignore_missing=False,
    )
    assert [one.id for one in mine.group_clients(group.id)] == [second.id]
    mine.delete_group_goal(group.id)
    assert mine.get_group(group.id).goal is None
    mine.delete_group(group.id, ignore_missing=False)
    site.wait_until_gone()
    refused("GROUP_NOT_FOUND", mine.get_group, group.id)
    assert site.rows("group_clients") == []


def test_all_or_none(site: groupsite.Site) -> None:
    """Two groups need both slots; a third one does not get them in time."""
    mine, pair = site.mine, {"accelerator": "aes", "size": 2}
    refused(
        "SET_IMPOSSIBLE",
        mine.create_group,
        **{**pair, "name": "large", "size": 3, "all_or_none": True},
    )
    first = mine.create_group(name="first", all_or_none=True, **pair)
    assert (first.state, first.all_or_none) == ("CREATING", True)
    site.wait_members(first.id, 2)
    second = mine.create_group(
        name="second", all_or_none=True, placement="same_board", **pair
    )
    late = mine.create_group(
        name="late", all_or_none=True, wait_timeout_s=0.5, **pair
    )
    failed = waiting.wait_until(
        lambda: (
            found
            if (found := mine.get_group(late.id)).state == "FAILED"
            else None
        ),
        "the end of its wait",
        harness.LIMIT_S,
    )
    assert failed.reason == "WAIT_TIMEOUT"
    refused("GROUP_FAILED", mine.update_group, late.id, name="other")
    refused("GROUP_WAITS", mine.update_group, second.id, size=1, min_size=1)
    assert mine.get_group(second.id).members == []
    mine.delete_group(first.id)
    site.wait_members(second.id, 2)
    assert mine.get_group(second.id).state == "ACTIVE"
    for group in (second, late):
        mine.delete_group(group.id)
    site.wait_until_gone()
    assert site.rows("group_desks") == []


def test_a_group_that_is_shared(site: groupsite.Site) -> None:
    group = site.mine.create_group(name="render", accelerator="aes", size=1)
    site.admin.update_group(group.id, shared=True, projects=["p2"])
    client = site.theirs.attach_group_client(group.id)
    assert [one.id for one in site.mine.group_clients(group.id)] == [client.id]
    site.admin.update_group(group.id, shared=False)
    refused("GROUP_NOT_FOUND", site.theirs.get_group, group.id)
    assert site.rows("group_clients") == []
    site.mine.delete_group(group.id)
