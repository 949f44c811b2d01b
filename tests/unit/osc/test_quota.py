# SPDX-License-Identifier: Apache-2.0

"""Commands for quotas and usage."""

from __future__ import annotations

from typing import Any

import pytest
from openstack import exceptions
from openstack.test import fakes as sdk_fakes
from osc_lib import exceptions as osc_exceptions

from fpgapool.api.schemas import accounting as schemas
from fpgapool.osc.sdk import accounting as sdk
from fpgapool.osc.v1 import quota
from fpgapool.osc.v1 import usage
from fpgapool.vocabulary import accounting
from tests.unit.osc import fakes

PROJECT_ID = "5f0e6b7c9a1d4e2f8b3c7d9e0a1b2c3d"


def app_with(projects: dict[str, str]) -> fakes.App:
    """Return an application whose Keystone knows projects, by their names."""
    app = fakes.App()
    app.know_projects(projects)
    return app


def quota_with(**limits: int) -> sdk.Quota:
    return sdk.Quota(
        project_id=PROJECT_ID,
        **{
            resource: {
                "limit": limits.get(resource, 10),
                "in_use": 3,
                "source": "default",
            }
            for resource in accounting.QUOTAS
        },
    )


def test_the_own_quota_is_shown() -> None:
    app = app_with({})
    app.client.get_quota.side_effect = lambda: quota_with(sessions=-1)
    shown = app.rows(quota.ShowQuota)
    assert [row["Resource"] for row in shown] == list(accounting.QUOTAS)
    assert shown[0] == {
        "Resource": "sessions",
        "Limit": -1,
        "In Use": 3,
        "Source": "default",
    }


def test_options_of_a_project_need_one() -> None:
    app = app_with({})
    # The parser completes this to --project-domain.
    with pytest.raises(osc_exceptions.CommandError, match="need a project"):
        app.run(quota.ShowQuota, "--project", "research")
    app.client.get_quota.assert_not_called()


@pytest.mark.parametrize("value", ["2", "-1", "yes"])
def test_turns_are_on_or_off(
    value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    app = app_with({"research": PROJECT_ID})
    with pytest.raises(SystemExit):
        app.run(quota.SetQuota, f"--user-turns={value}", "research")
    assert f"'{value}' is not 0 or 1" in capsys.readouterr().err


def test_defaults_are_shown() -> None:
    app = app_with({})
    found = sdk.Quota(sessions={"limit": 64, "source": "default"})
    app.client.get_default_quota.side_effect = lambda: found
    (row,) = app.rows(quota.ShowQuota, "--default")
    assert (row["Limit"], row["In Use"]) == (64, None)


def test_projects_have_names() -> None:
    app = app_with({"research": PROJECT_ID})
    app.client.get_quota.side_effect = lambda project_id: quota_with()
    app.rows(quota.ShowQuota, "research")
    app.client.get_quota.assert_called_once_with(PROJECT_ID)


def test_a_name_that_several_have_is_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    app = app_with({})
    app.identity.find_project.side_effect = exceptions.DuplicateResource(
        "More than one Project exists"
    )
    with pytest.raises(Exception, match="More than one"):
        app.run(quota.DeleteQuota, "research")
    app.client.delete_quota.assert_not_called()


def test_limits_are_set() -> None:
    app = app_with({"research": PROJECT_ID})
    app.client.set_quota.side_effect = lambda project_id, **limits: quota_with(
        **limits
    )
    arguments = ["--sessions", "5", "--queued-bytes=-1", PROJECT_ID]
    rows = app.rows(quota.SetQuota, *arguments)
    app.client.set_quota.assert_called_once_with(
        PROJECT_ID, sessions=5, queued_bytes=-1
    )
    assert [row["Limit"] for row in rows] == [5, 10, -1, *[10] * 10]


def test_a_limit_of_0_is_explained() -> None:
    app = app_with({"research": PROJECT_ID})
    app.client.set_quota.side_effect = lambda project_id, **limits: quota_with(
        **limits
    )
    app.rows(quota.SetQuota, "--sessions=0", "--queued=1", PROJECT_ID)
    assert app.stderr.getvalue() == (
        "--sessions 0: the project may have none; -1 means unlimited\n"
    )


def test_limits_are_unset() -> None:
    app = app_with({"research": PROJECT_ID})
    app.client.set_quota.side_effect = lambda project_id, **limits: (
        quota_with()
    )
    app.rows(quota.UnsetQuota, "--bitstream-bytes", "--queued", PROJECT_ID)
    app.client.set_quota.assert_called_once_with(
        PROJECT_ID, queued=None, bitstream_bytes=None
    )
    assert app.run(quota.DeleteQuota, PROJECT_ID) == 0
    app.client.delete_quota.assert_called_once_with(PROJECT_ID)


@pytest.mark.parametrize("class_", [quota.SetQuota, quota.UnsetQuota])
def test_nothing_to_set(class_: Any) -> None:
    app = app_with({})
    with pytest.raises(Exception, match="at least one of --sessions"):
        app.run(class_, PROJECT_ID)
    app.client.set_quota.assert_not_called()


@pytest.mark.parametrize("limit", ["-2", "x", "1.5", "", str(2**63)])
def test_what_is_no_limit(
    limit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    app = app_with({})
    with pytest.raises(SystemExit):
        app.run(quota.SetQuota, f"--sessions={limit}", PROJECT_ID)
    said = "is not a limit: 0 or more, or -1 for unlimited"
    assert said in capsys.readouterr().err


# -- usage ------------------------------------------------------------------


def used(accelerator: str, energy_j: float | None) -> sdk.Usage:
    return sdk_fakes.generate_fake_resource(
        sdk.Usage,
        accelerator=accelerator,
        sessions=2,
        sessions_met=1,
        sessions_missed=0,
        slot_s=1.5,
        group_busy_s=0.5,
        group_idle_s=0.25,
        input_bytes=100,
        output_bytes=50,
        energy_j=energy_j,
        energy_j_per_sla=energy_j,
    )


def test_totals_are_shown() -> None:
    app = app_with({"research": PROJECT_ID})
    app.client.usage.side_effect = lambda **query: iter(
        [used("aes", None), used("copy", 20.0)]
    )
    shown = app.rows(
        usage.ShowUsage, "--project", "research", "--start", "2026-05-01"
    )
    assert shown == {
        "project_id": PROJECT_ID,
        "start": "2026-05-01",
        "sessions": 4,
        "sessions_met": 2,
        "sessions_missed": 0,
        "slot_s": 3.0,
        "group_busy_s": 1.0,
        "group_idle_s": 0.5,
        "input_bytes": 200,
        "output_bytes": 100,
        "energy_j": 20.0,
        # Of both accelerators' sessions.
        "energy_j_per_sla": 10.0,
    }
    app.client.usage.assert_called_once_with(
        group_by="accelerator", project_id=PROJECT_ID, start="2026-05-01"
    )


def test_nothing_was_used() -> None:
    app = app_with({})
    app.client.usage.side_effect = lambda **query: iter([])
    shown = app.rows(usage.ShowUsage)
    assert (shown["sessions"], shown["energy_j"]) == (0, None)
    assert shown["energy_j_per_sla"] is None


@pytest.mark.parametrize(
    ("arguments", "first", "query"),
    [
        ((), ["Day", "Project ID", "Accelerator"], {}),
        (("--group-by=day",), ["Day", "Sessions"], {"group_by": "day"}),
        (
            ("--all-projects", "--group-by=project"),
            ["Project ID", "Sessions"],
            {"all_projects": True, "group_by": "project"},
        ),
        (("--accelerator=aes",), ["Day"], {"accelerator": "aes"}),
    ],
)
def test_usage_is_listed(
    arguments: tuple[str, ...], first: list[str], query: dict[str, Any]
) -> None:
    app = app_with({})
    app.client.usage.side_effect = lambda **_: iter([used("aes", 1.0)])
    (row,) = app.rows(usage.ListUsage, *arguments)
    assert list(row)[: len(first)] == first
    app.client.usage.assert_called_once_with(**query)


@pytest.mark.parametrize("day", ["yesterday", "2026-02-30", "01/02/2026"])
def test_what_is_no_day(day: str, capsys: pytest.CaptureFixture[str]) -> None:
    app = app_with({})
    with pytest.raises(SystemExit):
        app.run(usage.ListUsage, "--start", day)
    assert "is not a date" in capsys.readouterr().err


@pytest.mark.parametrize("class_", [usage.ListUsage, usage.ShowUsage])
def test_a_first_day_after_the_last(class_: Any) -> None:
    app = app_with({})
    with pytest.raises(
        osc_exceptions.CommandError,
        match="--start 2026-02-02 is after --end 2026-02-01",
    ):
        app.run(class_, "--start", "2026-02-02", "--end", "2026-02-01")
    app.client.usage.assert_not_called()


def test_everything_that_the_api_says_is_known() -> None:
    (member,) = (schemas.USAGE["response"]["properties"]["usage"]["items"],)
    known = set(sdk.Usage().to_dict())
    assert set(member["properties"]) <= known
    assert set(schemas.USAGE["query"]["properties"]) <= set(
        sdk.Usage._query_mapping._mapping
    )


def test_limits_of_bytes_have_units() -> None:
    app = app_with({"research": PROJECT_ID})
    app.client.set_quota.side_effect = lambda project_id, **limits: quota_with(
        **limits
    )
    arguments = ["--queued-bytes=2G", "--bitstream-bytes=-1", PROJECT_ID]
    app.rows(quota.SetQuota, *arguments)
    app.client.set_quota.assert_called_once_with(
        PROJECT_ID, queued_bytes=2 * 10**9, bitstream_bytes=-1
    )
