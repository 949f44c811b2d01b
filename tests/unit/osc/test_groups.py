# SPDX-License-Identifier: Apache-2.0

"""Commands for groups and their clients."""

from __future__ import annotations

from typing import Any

import pytest
from openstack.test import fakes as sdk_fakes
from osc_lib import exceptions

from fpgapool.osc.sdk import group as sdk
from fpgapool.osc.v1 import group
from tests.unit.osc import fakes

ID = fakes.SESSION_ID
OTHER_ID = ID[:-1] + "2"
CREATE = ("render", "--accelerator=aes", "--size=2")


@pytest.fixture
def app() -> fakes.App:
    made = fakes.App()
    found = sdk_fakes.generate_fake_resource(
        sdk.Group, id=ID, projects=["p2", "p3"]
    )
    for method in ("create", "get", "update"):
        getattr(made.client, f"{method}_group").side_effect = (
            lambda *arguments, **options: found
        )
    made.know_projects({"media": "p2", "film": "p3", "art": "p4"})
    return made


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ((), {}),
        (
            ("--min-size=0", "--max-size=4", "--elastic"),
            {"min_size": 0, "max_size": 4, "elastic": True},
        ),
        (
            ("--shared", "--project=media", "--project=film"),
            {"shared": True, "projects": ["p2", "p3"]},
        ),
        (
            ("--deadline=2030-01-01", "--actions=5"),
            {"goal": {"deadline_at": "2030-01-01", "actions": 5}},
        ),
        (("--rate=2.5",), {"goal": {"rate_per_s": 2.5}}),
        (("--all-or-none",), {"all_or_none": True}),
        (
            ("--all-or-none", "--placement=spread", "--wait-timeout=60"),
            {
                "all_or_none": True,
                "placement": "spread",
                "wait_timeout_s": 60.0,
            },
        ),
    ],
)
def test_what_is_asked_for(
    app: fakes.App, options: tuple[str, ...], sent: dict[str, Any]
) -> None:
    app.rows(group.CreateGroup, *CREATE, *options)
    app.client.create_group.assert_called_once_with(
        name="render", accelerator="aes", size=2, **sent
    )


@pytest.mark.parametrize(
    "line",
    [
        ("render", "--size=2"),
        ("render", "--accelerator=aes"),
        (*CREATE, "--elastic", "--no-elastic"),
        (*CREATE, "--rate=fast"),
        (*CREATE, "--rate=5", "--deadline=2030-01-01", "--actions=5"),
        (*CREATE, "--min-size=few"),
        (*CREATE, "--all-or-none", "--placement=near"),
        (*CREATE, "--all-or-none", "--wait-timeout=soon"),
    ],
)
def test_a_line_that_is_refused(
    app: fakes.App, line: tuple[str, ...], capsys: Any
) -> None:
    with pytest.raises(SystemExit):
        app.run(group.CreateGroup, *line)
    app.client.create_group.assert_not_called()


def test_a_group_is_changed_before_its_goal(app: fakes.App) -> None:
    order: list[str] = []
    for method in ("update_group", "set_group_goal"):
        getattr(app.client, method).side_effect = (
            lambda *_, method=method, **__: order.append(method)
        )
    options = ("--name=new", "--size=3", "--no-elastic", "--rate=5", ID)
    assert app.run(group.SetGroup, *options) == 0
    app.client.update_group.assert_called_once_with(
        ID, name="new", size=3, elastic=False
    )
    app.client.set_group_goal.assert_called_once_with(ID, rate_per_s=5.0)
    assert order == ["update_group", "set_group_goal"]


def test_only_what_is_named_is_sent(app: fakes.App) -> None:
    options = ("--deadline=2030-01-01", "--actions=5", ID)
    assert app.run(group.SetGroup, *options) == 0
    app.client.update_group.assert_not_called()
    assert app.run(group.UnsetGroup, "--goal", ID) == 0
    app.client.update_group.assert_not_called()
    app.client.delete_group_goal.assert_called_once_with(ID)


def test_projects_come_in_addition_and_go_one_by_one(app: fakes.App) -> None:
    assert app.run(group.SetGroup, "--project=art", ID) == 0
    app.client.update_group.assert_called_once_with(
        ID, projects=["p2", "p3", "p4"]
    )
    app.client.update_group.reset_mock()
    assert app.run(group.UnsetGroup, "--project=media", ID) == 0
    app.client.update_group.assert_called_once_with(ID, projects=["p3"])


def test_the_last_project_does_not_open_the_group(app: fakes.App) -> None:
    """Without projects, a shared group would be for all of them."""
    line = ("--goal", "--project=media", "--project=film", ID)
    with pytest.raises(exceptions.CommandError, match="--no-shared"):
        app.run(group.UnsetGroup, *line)
    app.client.update_group.assert_not_called()
    app.client.delete_group_goal.assert_not_called()


def test_clients_are_listed_without_secrets(app: fakes.App) -> None:
    one = sdk_fakes.generate_fake_resource(sdk.GroupClient, secret="s3cr3t")
    app.client.group_clients.side_effect = lambda *_, **__: iter([one])
    (row,) = app.rows(group.ListGroupClients, "--long", ID)
    assert row["ID"] == one.id
    assert "s3cr3t" not in app.stdout.getvalue()


def test_all_clients_are_revoked_that_can_be(
    app: fakes.App, caplog: pytest.LogCaptureFixture
) -> None:
    def revoke(_group: str, client: str, **_: Any) -> None:
        if client == ID:
            raise fakes.refusal(404, "GROUP_CLIENT_NOT_FOUND", "no client")

    app.client.revoke_group_client.side_effect = revoke
    with pytest.raises(exceptions.CommandError, match="1 of 2 clients"):
        app.run(group.RevokeGroupClient, OTHER_ID, ID, OTHER_ID)
    assert "GROUP_CLIENT_NOT_FOUND" in caplog.text
    app.client.revoke_group_client.assert_called_with(
        OTHER_ID, OTHER_ID, ignore_missing=False
    )
