# SPDX-License-Identifier: Apache-2.0

"""Projects by name, in all commands that take one."""

from __future__ import annotations

import types
from typing import Any
from unittest import mock

import pytest
from keystoneauth1 import exceptions as auth_exceptions
from keystoneauth1 import token_endpoint
from openstack import exceptions
from osc_lib import exceptions as osc_exceptions

from fpgapool.osc.sdk import accounting as sdk
from fpgapool.osc.v1 import bitstream
from fpgapool.osc.v1 import quota
from fpgapool.osc.v1 import session
from fpgapool.osc.v1 import usage
from tests.unit.osc import fakes

PROJECT_ID = "5f0e6b7c9a1d4e2f8b3c7d9e0a1b2c3d"

#: Class and options, with the name of a project at the end.
COMMANDS: dict[str, tuple[Any, list[str]]] = {
    "quota show": (quota.ShowQuota, ["research"]),
    "quota set": (quota.SetQuota, ["--sessions=5", "research"]),
    "quota unset": (quota.UnsetQuota, ["--sessions", "research"]),
    "quota delete": (quota.DeleteQuota, ["research"]),
    "usage show": (usage.ShowUsage, ["--project=research"]),
    "usage list": (usage.ListUsage, ["--project=research"]),
    "session list": (session.ListSessions, ["--project=research"]),
    "bitstream list": (bitstream.ListBitstreams, ["--project=research"]),
    "bitstream set": (
        bitstream.SetBitstream,
        [fakes.SESSION_ID, "--name=n", "--project=research"],
    ),
    "bitstream unset": (
        bitstream.UnsetBitstream,
        [fakes.SESSION_ID, "--project=research"],
    ),
}

every_command = pytest.mark.parametrize(
    ("class_", "arguments"), COMMANDS.values(), ids=COMMANDS
)


@pytest.fixture
def app() -> fakes.App:
    """Give an application whose Keystone knows no project."""
    made = fakes.App()
    for name in ("get_quota", "set_quota"):
        getattr(made.client, name).side_effect = lambda *_, **__: sdk.Quota()
    for name in ("usage", "sessions", "bitstreams"):
        getattr(made.client, name).side_effect = lambda **_: []
    return made


def _asked_for(app: fakes.App) -> str:
    """Return the project of the only question, or change, that names one."""
    (found,) = (
        given[-1] if given else options["project_id"]
        for name, given, options in app.client.mock_calls
        if name != "update_bitstream"
    )
    return str(found)


@every_command
def test_a_name_stands_for_the_id(
    app: fakes.App, class_: Any, arguments: list[str]
) -> None:
    app.know_projects({"research": PROJECT_ID})
    app.run(class_, *arguments)
    assert _asked_for(app) == PROJECT_ID


@every_command
def test_what_keystone_does_not_know_is_refused(
    app: fakes.App, class_: Any, arguments: list[str]
) -> None:
    """A name with a slip in it changes nothing, and is not an empty list."""
    with pytest.raises(
        osc_exceptions.CommandError, match=r"'research'.*--force-project"
    ):
        app.run(class_, *arguments)
    assert not app.client.mock_calls


USER_ID = "0e6b5f7c9a1d4e2f8b3c7d9e0a1b2c3d"


def _know_user(app: fakes.App) -> None:
    app.identity.find_user.side_effect = lambda name, **_: (
        types.SimpleNamespace(id=USER_ID) if name == "eve" else None
    )


def test_a_user_may_be_named(app: fakes.App) -> None:
    _know_user(app)
    app.run(session.ListSessions, "--user", "eve", "--user-domain", "d")
    app.client.sessions.assert_called_once_with(
        user_id=USER_ID, state=mock.ANY
    )
    app.identity.find_domain.assert_called_once_with("d", ignore_missing=False)


@pytest.mark.parametrize("user", [USER_ID, "1000", 2 * USER_ID])
def test_ids_of_users_are_not_looked_up(app: fakes.App, user: str) -> None:
    """They may be deleted, or not be Keystone's."""
    app.run(session.ListSessions, "--user", user)
    app.client.sessions.assert_called_once_with(user_id=user, state=mock.ANY)
    app.identity.find_user.assert_not_called()


def test_a_user_whom_keystone_does_not_show(app: fakes.App) -> None:
    _know_user(app)
    with pytest.raises(osc_exceptions.CommandError, match="no user 'bob'"):
        app.run(session.ListSessions, "--user", "bob")
    app.identity.find_user.side_effect = exceptions.ForbiddenException()
    with pytest.raises(osc_exceptions.CommandError, match="use the ID"):
        app.run(session.ListSessions, "--user", "bob")
    assert not app.client.mock_calls


@every_command
def test_what_is_forced_is_an_id(
    app: fakes.App, class_: Any, arguments: list[str]
) -> None:
    """As of a project that is gone from Keystone."""
    app.know_projects({"research": PROJECT_ID})
    app.run(class_, *arguments, "--force-project")
    assert _asked_for(app) == "research"
    app.identity.find_project.assert_not_called()


@pytest.fixture
def lone(app: fakes.App) -> fakes.App:
    """Give an application in a pool without Keystone."""
    connection: Any = app.client_manager.sdk_connection
    connection.session.auth = token_endpoint.Token("http://pool", "t")
    # What openstacksdk returns for an API that it does not know.
    connection.identity = object()
    return app


@every_command
def test_without_keystone_names_are_ids(
    lone: fakes.App, class_: Any, arguments: list[str]
) -> None:
    lone.run(class_, *arguments)
    assert _asked_for(lone) == "research"


def test_users_without_keystone(lone: fakes.App) -> None:
    lone.run(session.ListSessions, "--user", "eve")
    lone.client.sessions.assert_called_once_with(user_id="eve", state=mock.ANY)


@pytest.mark.parametrize(
    "error",
    [
        exceptions.ForbiddenException(),
        exceptions.NotFoundException(),
        auth_exceptions.EndpointNotFound(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_keystone_does_not_tell_is_refused(
    app: fakes.App, error: Exception
) -> None:
    """Most users may not look for other projects."""
    app.identity.find_project.side_effect = error
    with pytest.raises(
        osc_exceptions.CommandError, match=r"'research'.*--force-project"
    ):
        app.run(quota.DeleteQuota, "research")
    assert not app.client.mock_calls
