# SPDX-License-Identifier: Apache-2.0

"""Commands that list: columns, filters, order, pages."""

from __future__ import annotations

from typing import Any

import pytest
from openstack.test import fakes as sdk_fakes
from osc_lib import exceptions

from fpgapool.api.schemas import groups as group_schemas
from fpgapool.api.schemas import inventory as inventory_schemas
from fpgapool.api.schemas import library as library_schemas
from fpgapool.api.schemas import sessions as session_schemas
from fpgapool.osc.sdk import group as group_sdk
from fpgapool.osc.sdk import inventory
from fpgapool.osc.sdk import library
from fpgapool.osc.sdk import session as session_sdk
from fpgapool.osc.v1 import accelerator
from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import device
from fpgapool.osc.v1 import group
from fpgapool.osc.v1 import host
from fpgapool.osc.v1 import instance
from fpgapool.osc.v1 import service
from fpgapool.osc.v1 import session
from fpgapool.osc.v1 import slot
from fpgapool.vocabulary import states as vocabulary
from tests.unit.osc import fakes

UUID = "0a0a0a0a-0000-4000-8000-000000000001"

#: Class, resource, schema of the query.
LISTS: dict[str, tuple[type[base.ListCommand], Any, Any]] = {
    "accelerator": (
        accelerator.ListAccelerators,
        library.Accelerator,
        library_schemas.ACCELERATORS["query"],
    ),
    "device": (
        device.ListDevices,
        inventory.Device,
        inventory_schemas.DEVICES["query"],
    ),
    "instance": (
        instance.ListInstances,
        inventory.Instance,
        inventory_schemas.INSTANCES["query"],
    ),
    "group": (
        group.ListGroups,
        group_sdk.Group,
        group_schemas.GROUPS["query"],
    ),
    "host": (host.ListHosts, inventory.Host, inventory_schemas.HOSTS["query"]),
    "service": (
        service.ListServices,
        inventory.Service,
        inventory_schemas.SERVICES["query"],
    ),
    "session": (
        session.ListSessions,
        session_sdk.Session,
        session_schemas.SESSIONS["query"],
    ),
    "slot": (slot.ListSlots, inventory.Slot, inventory_schemas.SLOTS["query"]),
}

every_list = pytest.mark.parametrize(
    ("class_", "resource", "schema"), LISTS.values(), ids=LISTS
)


def _calls(app: fakes.App, class_: type[base.ListCommand]) -> Any:
    return getattr(app.client, class_.method)


@every_list
def test_columns(
    class_: type[base.ListCommand], resource: Any, schema: Any
) -> None:
    """Each shows an attribute that there is; --long shows more."""
    one = sdk_fakes.generate_fake_resource(resource)
    short = base.columns(class_.described, listed=True)
    long = base.columns(class_.described, listed=False) | class_.more_columns
    for arguments, columns in (((), short), (("--long",), short | long)):
        app = fakes.App()
        _calls(app, class_).side_effect = lambda: iter([one])
        (row,) = app.rows(class_, *arguments)
        assert row == {
            header: getattr(one, name) for name, header in columns.items()
        }
        assert None not in row.values()


@every_list
def test_order(
    class_: type[base.ListCommand], resource: Any, schema: Any
) -> None:
    """Every order that the service has, and no other."""
    assert (
        list(class_.described.sort_keys)
        == schema["properties"]["sort_key"]["items"]["enum"]
    )
    first, key = class_.described.sort_keys[0], class_.described.sort_keys[-1]
    for text, order in (
        (key, {"sort_key": [key]}),
        (f"{key}:asc", {"sort_key": [key], "sort_dir": ["asc"]}),
        (f"{key}:desc", {"sort_key": [key], "sort_dir": ["desc"]}),
        (
            f"{first}:desc,{key}",
            {"sort_key": [first, key], "sort_dir": ["desc", "asc"]},
        ),
    ):
        app = fakes.App()
        app.rows(class_, "--sort", text)
        _calls(app, class_).assert_called_once_with(**order)


@every_list
@pytest.mark.parametrize("text", ["", "nothing", "{}:", "{}:up", ":asc"])
def test_wrong_order(
    class_: type[base.ListCommand],
    resource: Any,
    schema: Any,
    text: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        fakes.App().run(
            class_, "--sort", text.format(class_.described.sort_keys[0])
        )
    keys = ", ".join(class_.described.sort_keys)
    assert f"is not one of {keys}, optionally with" in capsys.readouterr().err


@every_list
def test_limit(
    class_: type[base.ListCommand], resource: Any, schema: Any
) -> None:
    """The limit is that of all pages."""
    app = fakes.App()
    members = [sdk_fakes.generate_fake_resource(resource) for _ in range(5)]
    _calls(app, class_).side_effect = lambda **query: iter(members)
    assert len(app.rows(class_, "--limit", "2", "--marker", "m")) == 2
    _calls(app, class_).assert_called_once_with(limit=2, marker="m")


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_wrong_limit(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        fakes.App().run(slot.ListSlots, "--limit", text)
    assert "is not a positive integer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "line", "query"),
    [
        ("device", "--host compute1", {"host_name": "compute1"}),
        ("device", f"--host {UUID}", {"host_uuid": UUID}),
        ("device", "--state faulty", {"state": "faulty"}),
        ("host", "--name n --up", {"name": "n", "is_up": True}),
        ("host", "--down", {"is_up": False}),
        (
            "service",
            "--binary fpgapool-agent --down",
            {"binary": "fpgapool-agent", "is_up": False},
        ),
        ("slot", "--host compute1", {"host_name": "compute1"}),
        (
            "slot",
            f"--device {UUID} --accelerator aes --state idle",
            {"device_id": UUID, "accelerator": "aes", "state": "idle"},
        ),
        (
            "session",
            "--state ready --state QUEUED --accelerator aes",
            {"state": ["READY", "QUEUED"], "accelerator": "aes"},
        ),
        (
            "session",
            f"--request-id r --host {UUID} --all-projects",
            {"request_id": "r", "host_uuid": UUID, "all_projects": True},
        ),
        (
            "session",
            f"--user 1000 --instance {UUID}",
            {"user_id": "1000", "instance_id": UUID},
        ),
        (
            "session",
            "--project p --force-project",
            {"all_projects": True, "project_id": "p"},
        ),
    ],
)
def test_filters(kind: str, line: str, query: dict[str, Any]) -> None:
    class_, resource, schema = LISTS[kind]
    app = fakes.App()
    app.rows(class_, *line.split())
    _calls(app, class_).assert_called_once_with(**query)
    # Names of hosts are compared here; the service does the rest.
    mapping = resource._query_mapping._mapping
    sent = {mapping[name] for name in query if name != "host_name"}
    assert sent <= set(schema["properties"])


@every_list
def test_what_can_be_asked_for(
    class_: type[base.ListCommand], resource: Any, schema: Any
) -> None:
    """The resource knows every filter of the API."""
    mapping = resource._query_mapping._mapping
    assert set(mapping.values()) == set(schema["properties"])


@pytest.mark.parametrize(
    ("kind", "states"),
    [
        ("device", vocabulary.SHOWN_DEVICE_STATES),
        ("slot", vocabulary.SHOWN_SLOT_STATES),
    ],
)
def test_states(kind: str, states: tuple[str, ...]) -> None:
    schema = LISTS[kind][2]
    assert list(states) == schema["properties"]["state"]["enum"]


@pytest.mark.parametrize("kind", ["session", "instance"])
def test_lists_of_all_projects_say_whose(kind: str) -> None:
    class_, resource, _ = LISTS[kind]
    one = sdk_fakes.generate_fake_resource(resource)
    app = fakes.App()
    _calls(app, class_).side_effect = lambda **_: iter([one])
    (row,) = app.rows(class_, "--all-projects")
    assert row["Project ID"] == one.project_id
    app = fakes.App()
    _calls(app, class_).side_effect = lambda **_: iter([one])
    (row,) = app.rows(class_)
    assert "Project ID" not in row


def test_sessions_are_listed_with_their_reasons() -> None:
    shown = base.columns(session.ListSessions.described, listed=True)
    assert shown["reason"] == "Reason"
    assert shown["pending_reasons"] == "Waiting For"


@pytest.mark.parametrize(
    ("reasons", "text"),
    [
        (
            [
                {"code": "A", "message": "It waits."},
                {"code": "B", "message": "For long."},
            ],
            "It waits.\nFor long.",
        ),
        ([], ""),
        # Of a service of an earlier release.
        (None, ""),
    ],
)
def test_people_read_only_the_sentences(
    reasons: list[dict[str, str]] | None, text: str
) -> None:
    column = session.ListSessions.formatters["pending_reasons"](reasons)
    assert column.human_readable() == text
    assert column.machine_readable() == (reasons or [])


def test_an_instance_may_be_named() -> None:
    app = fakes.App()
    one = sdk_fakes.generate_fake_resource(
        inventory.Instance, id=UUID, name="web-1"
    )
    app.client.instances.side_effect = lambda **query: (
        [one] if query.get("all_projects") else []
    )
    app.rows(session.ListSessions, "--instance", "web-1")
    app.client.sessions.assert_called_once_with(instance_id=UUID)
    with pytest.raises(exceptions.CommandError, match="'web-2'"):
        fakes.App().run(session.ListSessions, "--instance", "web-2")
