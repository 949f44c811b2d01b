# SPDX-License-Identifier: Apache-2.0

"""``openstack fpga`` as a person calls it, with Keystone and a real pool."""

from __future__ import annotations

import datetime
import json
import logging
import pathlib
import uuid
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from importlib import metadata
from typing import Any
from typing import NamedTuple

import openstack
import pytest
from openstack import connection
from openstackclient import shell
from osc_lib import clientmanager

from fpgapool import version as installed
from fpgapool.osc.sdk import fpgapool_service
from fpgapool.vocabulary import microversions
from tests.harness import waiting
from tests.integration import server

GROUP = "openstack.fpgapool.v1"
NOBODY = str(uuid.UUID(int=0))


class Result(NamedTuple):
    """What a command has written, and its exit status."""

    status: int
    output: str
    errors: str

    @property
    def document(self) -> Any:
        """What it has written as JSON."""
        assert self.status == 0, self.errors
        return json.loads(self.output)


Command = Callable[..., Result]


@pytest.fixture
def openstack_as(
    clouds_yaml: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Command]:
    """Give the ``openstack`` command, for one of the clouds."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level

    def run(cloud: str, *arguments: str) -> Result:
        monkeypatch.setenv("OS_CLOUD", cloud)
        # Kept for the process, which calls one command as a rule.
        vars(clientmanager.ClientManager)["fpgapool"]._handle = None
        capsys.readouterr()
        # Other tests' handlers may write to streams that are closed by now.
        root.handlers[:] = []
        try:
            status = shell.OpenStackShell().run(list(arguments))
        finally:
            root.handlers[:] = handlers
        return Result(status, *capsys.readouterr())

    yield run
    root.setLevel(level)


@pytest.fixture
def fpga(openstack_as: Command) -> Command:
    """Give ``openstack fpga``, for one of the clouds."""

    def run(cloud: str, *arguments: str) -> Result:
        return openstack_as(cloud, "fpga", *arguments)

    return run


@pytest.fixture
def opened(
    fpga: Command, api: server.Server, tokens: Mapping[str, str]
) -> Iterator[Callable[..., dict[str, Any]]]:
    """Give a function that opens a session of the member."""
    ids = []

    def run(*options: str) -> dict[str, Any]:
        result = fpga(
            *("member", "session", "create", "copy", "1000"),
            *(*options, "-f", "json"),
        )
        session: dict[str, Any] = result.document
        ids.append(session["id"])
        return session

    yield run
    for session_id in ids:
        api.close(session_id, tokens["admin"])


#: Who may call what. Sessions are called below.
READS = {
    "pool show": "reader member service admin",
    "accelerator list": "reader member service admin",
    "accelerator list --long": "reader member service admin",
    "accelerator show copy": "reader member service admin",
    "host list": "service admin",
    "host list --up --long": "service admin",
    "device list": "service admin",
    "device list --state up --host board --long": "admin",
    "slot list": "service admin",
    "slot list --state idle --sort number:desc --long": "admin",
    "instance list": "reader member admin",
    "instance list --all-projects --long": "admin",
    "service list": "service admin",
    "service list --binary fpgapool-agent --up --long": "service admin",
    "session list": "reader member admin",
    "session list --state ready --state queued --long": "reader member admin",
    "session list --all-projects": "admin",
}


@pytest.mark.long
@pytest.mark.security
@pytest.mark.parametrize("persona", ["reader", "member", "admin"])
def test_who_may_read_what(fpga: Command, persona: str) -> None:
    """As JSON, and where it is refused with the rule that refuses it."""
    for line, allowed in READS.items():
        result = fpga(persona, *line.split(), "-f", "json")
        if persona in allowed.split():
            assert isinstance(result.document, list | dict), line
        else:
            assert result.status == 1, line
            assert "the policy fpgapool:" in result.errors
            assert "(FORBIDDEN)" in result.errors
            assert result.output == ""


def test_inventory(fpga: Command) -> None:
    """What lists say is what shows say, and filters find it."""
    pool = fpga("reader", "pool", "show", "-f", "json").document
    assert (pool["hosts"], pool["hosts_up"], pool["slots"]) == (1, 1, 2)
    (device,) = fpga("admin", "device", "list", "-f", "json").document
    shown = fpga("admin", "device", "show", device["ID"], "-f", "json")
    assert shown.document["name"] == device["Name"] == "board0"
    slots = fpga(
        *("admin", "slot", "list", "--host", "board", "--limit", "1"),
        *("--device", device["ID"], "--sort", "number:desc", "-f", "json"),
    ).document
    assert [slot["Number"] for slot in slots] == [1]
    nowhere = fpga("admin", "slot", "list", "--host", "elsewhere")
    assert nowhere.status == 1
    assert "no host is named 'elsewhere'" in nowhere.errors


def test_a_slot_is_shown_and_tested(fpga: Command) -> None:
    slot = fpga("admin", "slot", "list", "-f", "json").document[0]
    shown = fpga("admin", "slot", "show", slot["ID"], "-f", "json").document
    assert (shown["number"], shown["failures"]) == (slot["Number"], 0)
    assert fpga("admin", "slot", "test", slot["ID"]).status == 0
    refused = fpga("reader", "slot", "test", slot["ID"])
    assert refused.status == 1
    assert "the token has:" in refused.errors


def test_life_of_a_session(
    fpga: Command, opened: Callable[..., dict[str, Any]], personas: Any
) -> None:
    """Opened, seen, closed; its secret is shown to who asks for it."""
    session = opened("--wait", "--request-id", "from-a-person")
    assert session["state"] == "READY"
    assert session["request_id"] == "from-a-person"
    assert session["connection"]["endpoints"]
    assert "secret" not in json.dumps(session)
    again = opened("--request-id", "from-a-person")
    assert again["id"] == session["id"]

    show = ("session", "show", session["id"], "-f", "json")
    assert "secret" not in fpga("member", *show).output
    shown = fpga("member", *show, "--show-secret").document
    secret = shown["connection"]["secret"]
    assert len(secret) > 30
    table = fpga("member", "session", "show", session["id"])
    assert secret not in table.output
    debug = fpga("member", *show, "--debug")
    assert secret not in debug.output + debug.errors
    assert fpga("reader", *show).document["connection"] == {}

    listed = fpga(
        *("reader", "session", "list", "--state", "ready", "-f", "json"),
        *("--request-id", "from-a-person"),
    ).document
    assert [one["ID"] for one in listed] == [session["id"]]
    project = ("--project", personas.member.project.name)
    listed = fpga("admin", "session", "list", *project, "-f", "json").document
    assert session["id"] in [one["ID"] for one in listed]

    refused = fpga("reader", "session", "close", session["id"])
    assert refused.status == 1
    assert "FORBIDDEN" in refused.errors
    assert fpga("member", "session", "close", session["id"]).status == 0
    closed = fpga("member", *show).document
    assert closed["state"] == "CANCELLED"


def test_waiting_in_vain(
    fpga: Command, opened: Callable[..., dict[str, Any]]
) -> None:
    """The end of the session is an error, and says why."""
    for _ in range(2):
        opened("--wait")
    result = fpga(
        *("member", "session", "create", "copy", "1"),
        *("--wait", "--wait-timeout", "0.5"),
    )
    assert result.status == 1
    assert "is EXPIRED" in result.errors
    assert "WAIT_TIMEOUT" in result.errors


def test_who_waits_and_why(
    fpga: Command, opened: Callable[..., dict[str, Any]], personas: Any
) -> None:
    """The operator's words are for operators."""
    (device,) = fpga("admin", "device", "list", "-f", "json").document
    words = "new fan for board.example.org"
    change = ("admin", "device", "set")
    disable = ("--disable", "--reason", words, device["ID"])
    assert fpga(*change, *disable).status == 0
    try:
        session = opened()
        listing = ("session", "list", "--state", "queued", "--long")
        person = personas.member
        of_admin = fpga(
            *("admin", *listing, "--project", person.project.name),
            *("--user", person.name, "-f", "json"),
        ).document
        of_member = fpga("member", *listing, "-f", "json").document
    finally:
        assert fpga(*change, "--enable", device["ID"]).status == 0
    for listed, reads in ((of_admin, True), (of_member, False)):
        (one,) = (row for row in listed if row["ID"] == session["id"])
        assert one["User ID"] == session["user_id"] != ""
        assert one["Instance ID"] is None
        (reason,) = one["Waiting For"]
        assert reason["code"] == "NO_ENABLED_SLOT"
        assert (words in reason["message"]) == reads
        assert "Out of service: 2 disabled" in reason["message"]
    nobody = ("--user", NOBODY.replace("-", ""))
    found = fpga("admin", *listing, "--all-projects", *nobody, "-f", "json")
    assert found.document == []


def test_services_and_their_last_signs_of_life(fpga: Command) -> None:
    services = fpga("admin", "service", "list", "--long", "-f", "json")
    # Processes of other tests may have been killed a moment ago.
    found = [one for one in services.document if one["Up"]]
    by_binary = {one["Binary"]: one for one in found}
    assert set(by_binary) == {
        "fpgapool-agent",
        "fpgapool-api",
        "fpgapool-conductor",
    }
    for one in by_binary.values():
        assert one["Last Report At"]
        assert one["Version"] == installed.version_string()
    assert by_binary["fpgapool-conductor"]["Message"].startswith("leader")


def test_application_credential(openstack_as: Command) -> None:
    """Of a program, with the versions of the API that there are."""
    # The first version counts slots in the list of hosts, which is hidden.
    for version, slots in (("1", 2), ("1.0", 0)):
        result = openstack_as(
            "nonsense",
            *("--os-cloud", server.CLOUD),
            *("--os-fpgapool-api-version", version),
            *("fpga", "pool", "show", "-f", "json"),
        )
        assert result.document["slots"] == slots


def test_sdk(clouds_yaml: pathlib.Path) -> None:
    """A program; other connections and their class stay as they are."""
    with openstack.connect(cloud=server.CLOUD) as cloud:
        pool = fpgapool_service.proxy_of(cloud)
        assert pool is fpgapool_service.proxy_of(cloud)
        session = pool.create_session(accelerator="copy", claimed_bytes=10)
        while session.state != "READY":
            session = pool.get_session(
                session.id, wait_s=10, revision=session.revision
            )
        assert session.microversion == microversions.NEWEST
        secret = session.connection_info["secret"]
        renewed = pool.renew_session_secret(session.id)
        while not (renewed.connection_info or {}).get("secret"):
            renewed = pool.get_session(
                session.id, wait_s=10, revision=renewed.revision
            )
        assert renewed.connection_info["secret"] != secret
        pool.close_session(session)
        pool.close_session(NOBODY)
        with pytest.raises(openstack.exceptions.NotFoundException) as caught:
            pool.get_session(NOBODY)
        assert "there is no session" in str(caught.value)
        for refused in (pool.get_host, pool.get_device, pool.get_slot):
            with pytest.raises(openstack.exceptions.ForbiddenException):
                refused(NOBODY)
        with pytest.raises(openstack.exceptions.ConflictException):
            pool.reopen_session(session.id, session.generation)
    assert not hasattr(connection.Connection, "fpgapool")


@pytest.mark.long
def test_a_bitstream_from_its_file_to_its_end(
    fpga: Command, personas: Any, tmp_path: pathlib.Path
) -> None:
    """Brought by a member, approved by an administrator, and shared."""
    file, copy = tmp_path / "file", tmp_path / "copy"
    file.write_bytes(b"bits" * 1000)
    created = fpga(
        *("member", "bitstream", "create", "mine-1"),
        *("--accelerator", "mine", "--shape", "small"),
        *("--profile", '{"peak_bytes_per_s": 1e8, "core": "copy"}'),
        *("--file", str(file), "-f", "json"),
    ).document
    assert (created["state"], created["size_bytes"]) == ("unapproved", 4000)
    name = created["id"]
    assert fpga("member", "bitstream", "set", "--approve", name).status == 1
    assert fpga("stranger", "bitstream", "show", name).status == 1
    # A member may not ask Keystone for other projects.
    stranger = ("--project", personas.stranger.project.id)
    refused = fpga("member", "bitstream", "set", *stranger, name)
    assert (refused.status, "--force-project" in refused.errors) == (1, True)
    stranger = (*stranger, "--force-project")
    for persona, options in (
        ("admin", ("--approve", "--force")),
        ("member", ("--description", "for tests", *stranger)),
    ):
        result = fpga(persona, "bitstream", "set", *options, name)
        assert result.status == 0, result.errors
    shown = fpga("stranger", "bitstream", "show", name, "-f", "json").document
    assert (shown["state"], shown["description"]) == ("approved", "for tests")
    listed = fpga(
        *("member", "bitstream", "list", "--state", "approved", "--long"),
        *("-f", "json"),
    ).document
    assert [one["ID"] for one in listed] == [name]
    saved = fpga("member", "bitstream", "save", "--file", str(copy), name)
    assert saved.status == 0, saved.errors
    assert copy.read_bytes() == file.read_bytes()
    fpga("member", "bitstream", "unset", *stranger, name)
    assert fpga("stranger", "bitstream", "show", name).status == 1
    assert fpga("member", "bitstream", "delete", name).status == 0
    again = fpga("member", "bitstream", "delete", name)
    assert again.status == 1
    assert "(BITSTREAM_NOT_FOUND)" in again.errors


@pytest.mark.long
def test_a_device_and_a_host_are_disabled_and_enabled(fpga: Command) -> None:
    (device,) = fpga("admin", "device", "list", "-f", "json").document
    refused = fpga("member", "device", "set", "--disable", device["ID"])
    assert refused.status == 1
    assert "(FORBIDDEN)" in refused.errors
    for kind, words in (
        ("device", ("device", "set", "--disable", "--reason", "new fan")),
        ("host", ("host", "set", "--disable", "--reason", "new fan")),
    ):
        name = device["ID"] if kind == "device" else "board"
        show = ("admin", kind, "show", name, "-f", "json")
        assert fpga("admin", *words, name).status == 0
        shown = fpga(*show).document
        assert shown["admin_state"] == "disabled"
        assert shown["admin_reason"] == "new fan"
        assert fpga("admin", kind, "set", "--enable", name).status == 0
        assert fpga(*show).document["admin_state"] == "enabled"
    shown = fpga("service", "host", "show", "board", "-f", "json").document
    assert shown["name"] == "board"


def test_every_command_is_called_here() -> None:
    source = pathlib.Path(__file__).read_text()
    for entry_point in metadata.entry_points(group=GROUP):
        _, *words = entry_point.name.split("_")
        quoted = ", ".join(f'"{word}"' for word in words)
        assert quoted in source or '"' + " ".join(words) in source, words


def test_groups(fpga: Command) -> None:
    name = f"render-{uuid.uuid4().hex[:8]}"
    options = ("--accelerator", "copy", "--size", "1", "--elastic")
    created = fpga("member", "group", "create", name, *options, "-f", "json")
    assert created.document["name"] == name
    assert fpga("member", "group", "set", name, "--rate", "2").status == 0
    shown = fpga("reader", "group", "show", name, "-f", "json").document
    assert shown["goal"]["rate_per_s"] == 2
    listed = fpga("reader", "group", "list", "-f", "json").document
    assert name in {one["Name"] for one in listed}
    assert fpga("member", "group", "unset", name, "--goal").status == 0
    clients = fpga("member", "group", "client", "list", name, "-f", "json")
    assert clients.document == []
    revoked = fpga("member", "group", "client", "revoke", name, NOBODY)
    assert revoked.status == 1
    assert "(GROUP_CLIENT_NOT_FOUND)" in revoked.errors
    assert fpga("reader", "group", "delete", name).status == 1
    assert fpga("member", "group", "delete", name).status == 0


def test_a_token_that_is_not_there_is_not_taken_away(fpga: Command) -> None:
    result = fpga("member", "instance", "revoke", NOBODY)
    assert result.status == 1
    assert "(INSTANCE_NOT_FOUND)" in result.errors


# Quotas and usage.


def _limits(result: Result) -> dict[str, Any]:
    return {row["Resource"]: row["Limit"] for row in result.document}


@pytest.mark.long
def test_quotas_by_the_names_of_projects(fpga: Command, personas: Any) -> None:
    """Set by an administrator, seen by a member, and taken back."""
    project = personas.member.project
    default = _limits(fpga("member", "quota", "show", "-f", "json"))
    changed = fpga(
        *("admin", "quota", "set", "--sessions", "7"),
        *("--queued-bytes=-1", project.name, "-f", "json"),
    )
    assert _limits(changed) == {
        **default,
        "sessions": 7,
        "queued_bytes": -1,
    }
    own = fpga("member", "quota", "show", "-f", "json")
    assert own.document == changed.document
    # Of projects, a member may ask Keystone for the own one.
    by_id = fpga("member", "quota", "show", project.id, "-f", "json")
    assert by_id.document == changed.document
    unknown = fpga("admin", "quota", "set", "--sessions=7", "reserach")
    assert (unknown.status, "reserach" in unknown.errors) == (1, True)
    unset = fpga(
        *("admin", "quota", "unset", "--sessions", project.name),
        *("-f", "json"),
    )
    assert _limits(unset) == {**default, "queued_bytes": -1}
    assert fpga("admin", "quota", "delete", project.name).status == 0
    last = fpga("admin", "quota", "show", project.name, "-f", "json")
    assert _limits(last) == default
    general = fpga("reader", "quota", "show", "--default", "-f", "json")
    assert _limits(general) == default


@pytest.mark.long
def test_budgets_by_the_names_of_projects(
    fpga: Command, personas: Any
) -> None:
    """Set by an administrator, seen by a member, and taken back."""
    name = personas.member.project.name
    changed = fpga(
        *("admin", "budget", "set", "--slot-s", "3600", "--period", "day"),
        *(name, "-f", "json"),
    )
    own = fpga("member", "budget", "show", "-f", "json")
    assert own.document == changed.document
    assert own.document["period"] == "day"
    listed = fpga("admin", "budget", "list", "--all-projects", "-f", "json")
    assert len(listed.document) == 1
    unknown = fpga("admin", "budget", "set", "--slot-s=7", "reserach")
    assert (unknown.status, "reserach" in unknown.errors) == (1, True)
    assert fpga("admin", "budget", "delete", name).status == 0
    last = fpga("member", "budget", "show")
    assert (last.status, "no budget" in last.errors) == (1, True)


@pytest.mark.long
def test_reservations(fpga: Command, personas: Any) -> None:
    """Refused beyond the quota, made by an administrator, changed, deleted."""
    wanted = (
        *("reservation", "create", "--accelerator", "copy", "--slots", "1"),
        *("--start", _days_ahead(8), "--end", _days_ahead(9)),
    )
    refused = fpga("member", *wanted)
    assert (refused.status, "(QUOTA_EXCEEDED)" in refused.errors) == (1, True)
    project = personas.member.project
    name = f"night-{uuid.uuid4().hex[:8]}"
    created = fpga(
        *("admin", *wanted, "--name", name, "--project", project.name),
        *("-f", "json"),
    ).document
    assert created["project_id"] == project.id
    assert created["state"] == "scheduled"
    too_many = fpga("admin", *wanted[:4], "--slots", "99", *wanted[6:])
    assert "(RESERVATION_CONFLICT)" in too_many.errors
    changed = fpga(
        *("member", "reservation", "set", name, "--end", _days_ahead(10)),
        *("-f", "json"),
    ).document
    shown = fpga("reader", "reservation", "show", name, "-f", "json")
    assert shown.document["end_at"] == changed["end_at"]
    listed = fpga("reader", "reservation", "list", "-f", "json").document
    assert created["id"] in {one["ID"] for one in listed}
    assert fpga("reader", "reservation", "delete", name).status == 1
    assert fpga("member", "reservation", "delete", name).status == 0


def _days_ahead(days: int) -> str:
    now = datetime.datetime.now(datetime.UTC)
    return (now + datetime.timedelta(days=days)).isoformat()


@pytest.mark.long
def test_the_share_of_a_project(fpga: Command, personas: Any) -> None:
    share = fpga("member", "share", "show", "-f", "json").document
    assert share["project_id"] == personas.member.project.id


@pytest.mark.long
def test_usage_of_a_project(
    fpga: Command,
    personas: Any,
    opened: Callable[..., dict[str, Any]],
) -> None:
    def sessions() -> int:
        shown = fpga("member", "usage", "show", "-f", "json").document
        return int(shown["sessions"])

    before = sessions()
    session = opened("--wait")
    assert fpga("member", "session", "delete", session["id"]).status == 0
    waiting.wait_until(lambda: sessions() > before, "it is recorded")
    project = personas.member.project
    rows = fpga(
        *("admin", "usage", "list", "--project", project.name),
        *("--group-by", "accelerator", "-f", "json"),
    ).document
    assert "copy" in {one["Accelerator"] for one in rows}
    assert sum(one["Sessions"] for one in rows) > before
    everybody = fpga(
        *("admin", "usage", "list", "--all-projects"),
        *("--group-by", "project", "-f", "json"),
    ).document
    assert project.id in {one["Project ID"] for one in everybody}
    refused = fpga("member", "usage", "list", "--all-projects")
    assert (refused.status, "FORBIDDEN" in refused.errors) == (1, True)
