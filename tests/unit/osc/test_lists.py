# SPDX-License-Identifier: Apache-2.0

"""Commands that list: columns, filters, order, pages."""

from __future__ import annotations

import csv
import datetime
import io
import json
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


#: What sessions are listed unless others are asked for.
LIVE = ["ACTIVE", "DETACHED", "READY", "PREPARING", "QUEUED"]


def _live(class_: type[base.ListCommand]) -> dict[str, Any]:
    return {"state": LIVE} if class_ is session.ListSessions else {}


def _calls(app: fakes.App, class_: type[base.ListCommand]) -> Any:
    return getattr(app.client, class_.method)


@every_list
def test_columns(
    class_: type[base.ListCommand], resource: Any, schema: Any
) -> None:
    """Each shows an attribute that there is; --long shows more."""
    one = sdk_fakes.generate_fake_resource(resource)
    short = base.headings(class_.described, listed=True)
    long = base.headings(class_.described, listed=False) | class_.more_columns
    for arguments, columns in (((), short), (("--long",), short | long)):
        app = fakes.App()
        _calls(app, class_).side_effect = lambda **_: iter([one])
        (row,) = app.rows(class_, *arguments)
        for name in class_.added:
            del row[name]
        assert row == {
            header: getattr(one, name) for name, header in columns.items()
        }
        assert None not in row.values()


@every_list
def test_tables(
    class_: type[base.ListCommand], resource: Any, schema: Any
) -> None:
    """People see columns that there are; --long shows the others, too."""
    one = sdk_fakes.generate_fake_resource(resource)
    for heading in class_.table:
        assert heading in class_.derived or hasattr(one, heading)
    app = fakes.App()
    _calls(app, class_).side_effect = lambda **_: iter([one])
    assert app.run(class_, "--long") == 0
    heads = app.stdout.getvalue().splitlines()[1]
    described = base.headings(class_.described, listed=False)
    for heading in (*class_.table.values(), *described.values()):
        assert heading in heads


@every_list
@pytest.mark.parametrize("formatter", ["table", "value"])
def test_columns_have_the_names_of_tables_and_of_programs(
    class_: type[base.ListCommand], resource: Any, schema: Any, formatter: str
) -> None:
    one = sdk_fakes.generate_fake_resource(resource)
    if class_ is session.ListSessions:
        one.pending_reasons = []
    described = base.headings(class_.described, listed=True)
    for heading in {*class_.table.values(), *described.values()}:
        app = fakes.App()
        _calls(app, class_).side_effect = lambda **_: iter([one])
        assert app.run(class_, "-f", formatter, "-c", heading) == 0
        if formatter == "table":
            assert f"| {heading} " in app.stdout.getvalue()


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
        _calls(app, class_).assert_called_once_with(**order, **_live(class_))


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
    query = {"limit": 2, "marker": "m", **_live(class_)}
    _calls(app, class_).assert_called_once_with(**query)


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_wrong_limit(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        fakes.App().run(slot.ListSlots, "--limit", text)
    assert "is not a positive integer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "line", "query"),
    [
        ("device", f"--host {UUID}", {"host_uuid": UUID}),
        ("device", "--state faulty", {"state": "faulty"}),
        ("host", "--name n --up", {"name": "n", "is_up": True}),
        ("host", "--down", {"is_up": False}),
        (
            "service",
            "--binary fpgapool-agent --down",
            {"binary": "fpgapool-agent", "is_up": False},
        ),
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
            {"user_id": "1000", "instance_id": UUID, "state": LIVE},
        ),
        (
            "session",
            "--project p --force-project",
            {"all_projects": True, "project_id": "p", "state": LIVE},
        ),
        ("session", "--all", {}),
        ("session", "--all --accelerator aes", {"accelerator": "aes"}),
        (
            "session",
            "--changes-since 2026-03-01",
            {"changes_since": "2026-03-01"},
        ),
    ],
)
def test_filters(kind: str, line: str, query: dict[str, Any]) -> None:
    class_, resource, schema = LISTS[kind]
    app = fakes.App()
    app.client.accelerators.side_effect = lambda: [
        library.Accelerator(name="aes")
    ]
    app.rows(class_, *line.split())
    _calls(app, class_).assert_called_once_with(**query)
    mapping = resource._query_mapping._mapping
    sent = {mapping[name] for name in query}
    assert sent <= set(schema["properties"])


@pytest.mark.parametrize("text", ["yesterday", "", "12:00", "2026-02-30"])
def test_what_is_no_time(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    app = fakes.App()
    with pytest.raises(SystemExit):
        app.run(session.ListSessions, f"--changes-since={text}")
    with pytest.raises(SystemExit):
        app.run(group.SetGroup, f"--deadline={text}", "--actions=5", UUID)
    said = f"{text!r} is not a time; example: 2026-11-29T15:00:00"
    assert capsys.readouterr().err.count(said) == 2
    assert app.client.mock_calls == []


@pytest.mark.parametrize("kind", ["device", "slot", "session"])
def test_a_host_may_be_named(kind: str) -> None:
    """A name with a slip in it is not an empty list."""
    class_ = LISTS[kind][0]
    app = fakes.App()
    app.client.hosts.side_effect = lambda name: (
        [inventory.Host(uuid=UUID, name=name)] if name == "node1" else []
    )
    app.rows(class_, "--host", "node1")
    _calls(app, class_).assert_called_once_with(
        host_uuid=UUID, **_live(class_)
    )
    with pytest.raises(
        exceptions.CommandError,
        match="no host is named 'nodeX'; see 'openstack fpga host list'",
    ):
        app.run(class_, "--host", "nodeX")
    assert _calls(app, class_).call_count == 1


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
    shown = base.headings(session.ListSessions.described, listed=True)
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
    app.client.sessions.assert_called_once_with(instance_id=UUID, state=LIVE)
    with pytest.raises(exceptions.CommandError, match="'web-2'"):
        fakes.App().run(session.ListSessions, "--instance", "web-2")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "",
            "no live sessions of your project; --all shows ended ones,"
            " --all-projects those of others",
        ),
        (
            "--all",
            "no sessions of your project; --all-projects those of others",
        ),
        ("--all-projects", "no live sessions; --all shows ended ones"),
        ("--all --all-projects", "no sessions"),
        ("--all --project p --force-project", "no sessions of project p"),
        (
            "--accelerator aes --all-projects",
            "no live sessions match the options; --all shows ended ones",
        ),
    ],
)
def test_people_are_told_why_there_are_no_sessions(
    line: str, text: str
) -> None:
    app = fakes.App()
    app.client.sessions.side_effect = lambda **_: iter([])
    app.client.accelerators.side_effect = lambda: [
        library.Accelerator(name="aes")
    ]
    assert app.run(session.ListSessions, *line.split()) == 0
    assert app.stderr.getvalue() == f"{text}\n"
    assert not app.stdout.getvalue().strip()
    app.stderr.truncate(0)
    assert app.run(session.ListSessions, *line.split(), "-f", "json") == 0
    assert json.loads(app.stdout.getvalue()) == []
    assert app.stderr.getvalue() == ""


@pytest.mark.parametrize("kind", ["session", "slot"])
def test_an_accelerator_that_does_not_exist(kind: str) -> None:
    class_ = LISTS[kind][0]
    app = fakes.App()
    _calls(app, class_).side_effect = lambda **_: iter([])
    app.client.accelerators.side_effect = list
    with pytest.raises(
        exceptions.CommandError, match="no accelerator is named 'eas'; see"
    ):
        app.run(class_, "--accelerator", "eas")


NOW = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


def _ago(**times: float) -> dict[str, str]:
    """Return times before NOW, in seconds, as the API writes them."""
    return {
        name: (NOW - datetime.timedelta(seconds=ago_s)).isoformat()
        for name, ago_s in times.items()
    }


PLACED = {"host_name": "node1", "device": "board0", "slot": 1, "local": True}
WAITS = [{"code": "NO_FREE_SLOT", "message": "All slots are in use."}]
SESSIONS = {
    # Newest first, as the service lists them.
    "new": {"state": "QUEUED", "pending_reasons": WAITS, **_ago(queued_at=5)},
    "old": {"state": "QUEUED", "pending_reasons": WAITS, **_ago(queued_at=70)},
    "runs": {
        "state": "ACTIVE",
        "placement": PLACED,
        "claimed_bytes": 1_200_000_000,
        **_ago(queued_at=2000, ready_at=1409.1147627830505),
    },
    "done": {
        "state": "CLOSED",
        "reason": "DONE",
        **_ago(queued_at=2000, ready_at=1000, finished_at=10),
    },
}


def _sessions(
    monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[fakes.App, int]:
    monkeypatch.setattr(session.time, "time", NOW.timestamp)
    app = fakes.App()
    app.client.sessions.side_effect = lambda **query: iter(
        session_sdk.Session(
            **{
                "id": name,
                "accelerator": "aes",
                "claimed_bytes": 1000,
                "reason": "",
                "pending_reasons": [],
                **one,
            }
        )
        for name, one in SESSIONS.items()
        if one["state"] in query.get("state", [one["state"]])
    )
    return app, app.run(session.ListSessions, *arguments)


def _cells(app: fakes.App) -> list[list[str]]:
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in app.stdout.getvalue().splitlines()
    ]
    return [row for row in rows if row]


def test_sessions_as_people_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that run, and then those that wait, the next one first."""
    app, status = _sessions(monkeypatch)
    assert status == 0
    wait = "All slots are in use."
    assert _cells(app) == [
        ["ID", "Accelerator", "State", "Time", "Size", "Slot", "Reason"],
        [
            "runs",
            "aes",
            "ACTIVE",
            "23 min 29 s",
            "1.2 GB",
            "node1/board0.1",
            "",
        ],
        ["old", "aes", "QUEUED", "1 min 10 s", "1 kB", "", wait],
        ["new", "aes", "QUEUED", "5.0 s", "1 kB", "", wait],
    ]
    app, _ = _sessions(monkeypatch, "--all")
    rows = _cells(app)[1:]
    assert [row[0] for row in rows] == ["new", "old", "runs", "done"]
    assert rows[-1][2:] == ["CLOSED", "16 min 30 s", "1 kB", "", "DONE"]


def test_sessions_as_programs_read_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, _ = _sessions(monkeypatch, "-f", "json")
    row = json.loads(app.stdout.getvalue())[0]
    assert row["Claimed Bytes"] == 1_200_000_000
    assert row["Time"] == pytest.approx(1409.1147627830505, abs=1e-3)
    assert row["Slot"] == "node1/board0.1"
    app, _ = _sessions(
        monkeypatch,
        *("-f", "value", "-c", "ID", "-c", "Claimed Bytes", "-c", "Time"),
    )
    assert app.stdout.getvalue().splitlines()[-1] == "new 1000 5.0"
    app, _ = _sessions(monkeypatch, "-f", "csv")
    rows = csv.DictReader(io.StringIO(app.stdout.getvalue()))
    waits = {row["ID"]: json.loads(row["Waiting For"]) for row in rows}
    assert waits == {"runs": [], "old": WAITS, "new": WAITS}


def test_a_list_is_watched_until_it_is_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(base.ListCommand, "pause", staticmethod(pause))
    app, status = _sessions(monkeypatch, "--watch")
    assert (status, waits) == (0, [2.0] * 3)
    assert app.client.sessions.call_count == 3
    assert [row[0] for row in _cells(app)].count("ID") == 3
    # Only a screen is cleared.
    assert "\x1b" not in app.stdout.getvalue()
    waits.clear()
    _sessions(monkeypatch, "--watch", "0.5")
    assert waits == [0.5] * 3
