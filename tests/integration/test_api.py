# SPDX-License-Identifier: Apache-2.0

"""The REST API with tokens of a real Keystone, on a pool of real processes."""

from __future__ import annotations

import datetime
import json
import pathlib
import subprocess
import uuid
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping

import pytest
import sqlalchemy as sa

from fpgapool import client
from fpgapool.api import routes
from fpgapool.api.http import instances
from fpgapool.db import api as db_api
from fpgapool.db import models
from tests.functional.allinone import harness as commands
from tests.harness import cloud as clouds
from tests.integration import server
from tests.services import openstack

pytestmark = pytest.mark.security

DATA = bytes(range(256)) * 5000
HEX_KEY = "00" * 32

INSTANCE, SECOND_INSTANCE = (str(uuid.UUID(int=n)) for n in (1, 2))

#: Who may do what. Sessions are those of project A, of which the stranger is
#: not; the others are what everybody has in common, or belong to the caller.
MATRIX = {
    "GET /v1/accelerators": (
        "reader member manager stranger service nova admin instance"
    ),
    "GET /v1/accelerators/{name}": (
        "reader member manager stranger service nova admin instance"
    ),
    "GET /v1/bitstreams": "reader member manager stranger admin",
    "POST /v1/bitstreams": "member manager stranger admin",
    "GET /v1/bitstreams/{bitstream_id}": ("reader member manager admin"),
    "PATCH /v1/bitstreams/{bitstream_id}": "member manager admin",
    "PUT /v1/bitstreams/{bitstream_id}/file": "member manager admin",
    "GET /v1/bitstreams/{bitstream_id}/file": (
        "reader member manager agent admin"
    ),
    "POST /v1/bitstreams/{bitstream_id}/approve": "admin",
    "POST /v1/bitstreams/{bitstream_id}/reject": "admin",
    "PUT /v1/bitstreams/{bitstream_id}/projects/{project_id}": (
        "member manager admin"
    ),
    "DELETE /v1/bitstreams/{bitstream_id}/projects/{project_id}": (
        "member manager admin"
    ),
    "DELETE /v1/bitstreams/{bitstream_id}": "member manager admin",
    "GET /v1/hosts": "service nova admin",
    "GET /v1/hosts/{host_uuid}": "service nova admin",
    "PATCH /v1/hosts/{host_uuid}": "admin",
    "GET /v1/devices": "service nova admin",
    "GET /v1/devices/{device_id}": "service nova admin",
    "PATCH /v1/devices/{device_id}": "admin",
    "GET /v1/slots": "service nova admin",
    "GET /v1/slots/{slot_id}": "service nova admin",
    "POST /v1/slots/{slot_id}/test": "admin",
    "POST /v1/sessions": "member manager stranger admin instance",
    "GET /v1/sessions": "reader member manager stranger admin instance",
    "GET /v1/sessions/{session_id}": "reader member manager admin",
    "DELETE /v1/sessions/{session_id}": "member manager admin",
    "POST /v1/sessions/{session_id}/reopen": "member manager",
    "POST /v1/sessions/{session_id}/renew-secret": "member manager",
    "GET /v1/groups": "reader member manager stranger admin instance",
    "POST /v1/groups": "member manager stranger admin",
    "GET /v1/groups/{group_id}": "reader member manager admin instance",
    "PATCH /v1/groups/{group_id}": "member manager admin",
    "PUT /v1/groups/{group_id}/goal": "member manager admin",
    "DELETE /v1/groups/{group_id}/goal": "member manager admin",
    "GET /v1/groups/{group_id}/clients": (
        "reader member manager admin instance"
    ),
    "POST /v1/groups/{group_id}/clients": "member manager instance",
    # An instance sees the clients that it has attached.
    "GET /v1/groups/{group_id}/clients/{client_id}": (
        "reader member manager admin"
    ),
    "DELETE /v1/groups/{group_id}/clients/{client_id}": (
        "member manager admin"
    ),
    "DELETE /v1/groups/{group_id}": "member manager admin",
    "GET /v1/pool": "reader member manager stranger service nova admin",
    "GET /v1/pool/hosts": "service nova admin",
    "GET /v1/pool/snapshot": "service nova admin",
    "GET /v1/quotas": "reader member manager stranger admin",
    "GET /v1/quotas/defaults": "reader member manager stranger admin",
    "GET /v1/quotas/{project_id}": "reader member manager admin",
    "PUT /v1/quotas/{project_id}": "admin",
    "DELETE /v1/quotas/{project_id}": "admin",
    "GET /v1/budgets": "reader member manager stranger admin",
    "PUT /v1/budgets/{project_id}": "admin",
    # There is one only between these two.
    "GET /v1/budgets/{project_id}": "admin",
    "DELETE /v1/budgets/{project_id}": "admin",
    "GET /v1/reservations": "reader member manager stranger admin",
    "POST /v1/reservations": "member manager stranger admin",
    "GET /v1/reservations/{reservation_id}": "reader member manager admin",
    "PATCH /v1/reservations/{reservation_id}": "member manager admin",
    "DELETE /v1/reservations/{reservation_id}": "member manager admin",
    "GET /v1/share": "reader member manager stranger admin",
    "GET /v1/usage": "reader member manager stranger admin",
    "GET /v1/services": "service nova admin",
    "POST /v1/vendordata": "nova",
    "GET /v1/instances": "reader member manager stranger admin",
    "DELETE /v1/instances/{instance_id}/token": "member manager admin",
}


_BITSTREAM = {
    "accelerator": "mine",
    "shapes": ["medium"],
    "profile": {"peak_bytes_per_s": 1e8},
}

_BITSTREAM_BODIES: Mapping[str, object] = {
    "POST /v1/bitstreams": {"bitstream": _BITSTREAM},
    "PATCH /v1/bitstreams/{bitstream_id}": {"bitstream": {"name": "new"}},
    "PUT /v1/bitstreams/{bitstream_id}/file": b"a bitstream",
    "POST /v1/bitstreams/{bitstream_id}/approve": {"approve": {}},
    "POST /v1/bitstreams/{bitstream_id}/reject": {"reject": {"reason": "-"}},
}


@pytest.fixture
def bitstream_of_a(
    api: server.Server, tokens: Mapping[str, str]
) -> Iterator[str]:
    """Give the id of a bitstream of project A, without its file."""
    answer = api.ask(
        "POST", "/v1/bitstreams", tokens["member"], {"bitstream": _BITSTREAM}
    )
    assert answer.status == 201
    bitstream_id = answer.document["bitstream"]["id"]
    yield bitstream_id
    # One that the test has deleted is gone.
    path = f"/v1/bitstreams/{bitstream_id}"
    assert api.ask("DELETE", path, tokens["admin"]).status in (204, 404)


def _group() -> dict[str, object]:
    return {
        "name": f"render-{uuid.uuid4().hex[:8]}",
        "accelerator": "copy",
        "size": 1,
        "elastic": True,
    }


_GROUP_BODIES: Mapping[str, Callable[[], object]] = {
    "POST /v1/groups": lambda: {"group": _group()},
    "PATCH /v1/groups/{group_id}": lambda: {"group": {"max_size": 2}},
    "PUT /v1/groups/{group_id}/goal": lambda: {"goal": {"rate_per_s": 1.0}},
}


@pytest.fixture
def group_of_a(
    api: server.Server, tokens: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Give the ids of a group of project A, and of a client of it."""
    token = tokens["member"]
    answer = api.ask("POST", "/v1/groups", token, {"group": _group()})
    assert answer.status == 202
    group_id = answer.document["group"]["id"]
    path = f"/v1/groups/{group_id}"
    client_id = api.ask("POST", f"{path}/clients", token).document["client"][
        "id"
    ]
    yield group_id, client_id
    assert api.ask("DELETE", path, tokens["admin"]).status in (204, 404, 409)


def _reservation(**members: object) -> dict[str, object]:
    start = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=9)
    return {
        "accelerator": "copy",
        "slots": 1,
        "start_at": start.isoformat(),
        "end_at": (start + datetime.timedelta(hours=1)).isoformat(),
        **members,
    }


@pytest.fixture
def reservation_of_a(
    api: server.Server, tokens: Mapping[str, str], personas: openstack.Personas
) -> Iterator[str]:
    """Give the id of a reservation of project A."""
    wanted = _reservation(project_id=personas.member.project.id)
    answer = api.ask(
        *("POST", "/v1/reservations", tokens["admin"]),
        {"reservation": wanted},
    )
    assert answer.status == 201
    reservation_id = answer.document["reservation"]["id"]
    yield reservation_id
    path = f"/v1/reservations/{reservation_id}"
    assert api.ask("DELETE", path, tokens["admin"]).status in (204, 404)


@pytest.fixture
def session_of_a(
    api: server.Server, tokens: Mapping[str, str]
) -> Iterator[Mapping[str, object]]:
    """Give a READY session of project A."""
    answer = api.open(tokens["member"])
    assert answer.status == 202
    path = f"/v1/sessions/{answer.session['id']}"
    session = answer.session
    while session["state"] != "READY":
        revision = session["revision"]
        session = api.ask(
            "GET",
            f"{path}?wait_s=10&revision={revision}",
            tokens["member"],
        ).session
    yield session
    api.close(session["id"], tokens["admin"])


def _names(api: server.Server, token: str) -> dict[str, str]:
    """Return what stands for the variable parts of paths."""
    listed = {
        kind: api.ask("GET", f"/v1/{kind}", token).document[kind][0]
        for kind in ("hosts", "devices", "slots")
    }
    return {
        "name": "copy",
        "host_uuid": listed["hosts"]["uuid"],
        "device_id": listed["devices"]["id"],
        "slot_id": listed["slots"]["id"],
    }


def test_the_matrix_is_complete() -> None:
    """A new operation is thought about."""
    assert set(MATRIX) == {
        f"{route.method} {route.path}"
        for route in routes.ROUTES
        if not route.public
    }


@pytest.fixture(scope="module")
def callers(
    api: server.Server,
    cloud: clouds.Cloud,
    personas: openstack.Personas,
    tokens: Mapping[str, str],
) -> Mapping[str, str]:
    """Give the tokens of all personas, and of an instance of project A."""
    key, nonce = "k" * 32, "0" * 32
    rows = [
        {
            "id": number,
            "instance_id": instance_id,
            "project_id": personas.member.project.id,
            "name": "guest",
            "token_nonce": nonce,
            "token_hash": instances.hash_token(
                instances.make_token(key, instance_id, nonce)
            ),
            "token_revoked": False,
            "created_at": 1.0,
        }
        for number, instance_id in enumerate((INSTANCE, SECOND_INSTANCE), 1)
    ]
    database = db_api.Database(cloud.database_url)
    with database.engine.begin() as connection:
        connection.execute(sa.insert(models.instances), rows)
    database.close()
    # It reads them when it begins to lead.
    cloud.conductor.kill()
    cloud.conductor.start()
    cloud.wait_ready()
    token = instances.make_token(key, INSTANCE, nonce)
    return {**tokens, "instance": token}


@pytest.mark.parametrize("persona", [*server.PERSONAS, "instance"])
def test_who_may_do_what(
    api: server.Server,
    callers: Mapping[str, str],
    session_of_a: Mapping[str, object],
    group_of_a: tuple[str, str],
    bitstream_of_a: str,
    reservation_of_a: str,
    persona: str,
) -> None:
    """Each operation is refused to whom it is not for, and to nobody else."""
    names = _names(api, callers["admin"])
    names["instance_id"] = SECOND_INSTANCE
    names["session_id"] = str(session_of_a["id"])
    names["project_id"] = str(session_of_a["project_id"])
    names["bitstream_id"] = bitstream_of_a
    names["reservation_id"] = reservation_of_a
    names["group_id"], names["client_id"] = group_of_a
    found: dict[str, int] = {}
    # What ends the session comes last.
    for operation in sorted(MATRIX, key=lambda name: "DELETE" in name):
        method, template = operation.split()
        body = None
        if operation == "POST /v1/sessions":
            body = {"session": {"accelerator": "copy", "claimed_bytes": 1}}
        elif operation in (
            "PATCH /v1/hosts/{host_uuid}",
            "PATCH /v1/devices/{device_id}",
        ):
            body = {"state": "enabled"}
        elif operation in _BITSTREAM_BODIES:
            body = _BITSTREAM_BODIES[operation]
        elif operation in _GROUP_BODIES:
            body = _GROUP_BODIES[operation]()
        elif operation == "POST /v1/vendordata":
            body = {"instance-id": INSTANCE}
        elif operation.endswith("/reopen"):
            body = {"reopen": {"generation": 1}}
        elif operation == "POST /v1/slots/{slot_id}/test":
            body = {"test": {}}
        elif operation == "PUT /v1/quotas/{project_id}":
            body = {"quota": {"sessions": 60}}
        elif operation == "PUT /v1/budgets/{project_id}":
            body = {"budget": {"slot_s": 10**9}}
        elif operation == "POST /v1/reservations":
            body = {"reservation": _reservation()}
        elif operation == "PATCH /v1/reservations/{reservation_id}":
            body = {"reservation": {"name": "new"}}
        answer = api.ask(
            method,
            template.format(**names),
            callers[persona],
            body,
            content_type=(
                "application/octet-stream"
                if isinstance(body, bytes)
                else "application/json"
            ),
        )
        found[operation] = answer.status
        if operation == "POST /v1/sessions" and answer.status == 202:
            api.close(answer.session["id"], callers[persona])
        if operation == "POST /v1/reservations" and answer.status == 201:
            made = answer.document["reservation"]["id"]
            api.ask("DELETE", f"/v1/reservations/{made}", callers[persona])
        if operation == "POST /v1/groups" and answer.status == 202:
            made = answer.document["group"]["id"]
            api.ask("DELETE", f"/v1/groups/{made}", callers[persona])
    # Who hears of the state that something is in may do it in another one,
    # and who hears of a quota may do it with a higher one.
    allowed = {
        name
        for name, status in found.items()
        if status < 400 or status in (409, 429)
    }
    assert allowed == {
        name for name, may in MATRIX.items() if persona in may.split()
    }
    assert set(found.values()) <= {200, 201, 202, 204, 403, 404, 409, 429}


def test_program_with_an_application_credential(
    clouds_yaml: pathlib.Path,
    cloud: clouds.Cloud,
    personas: openstack.Personas,
) -> None:
    """As in an instance: the session is the project's."""
    api = client.PoolApi.from_cloud(server.CLOUD)
    with client.acc_open(
        "copy", len(DATA), front_door=api, request_id="from-an-instance"
    ) as session:
        session.pin[:4] = b"abcd"
        assert bytes(client.acc_run(session, 4)) == b"abcd"
    record = cloud.session_record(
        "from-an-instance", personas.member.project.id
    )
    assert record.user_id == personas.member.id
    assert record.host_id is None


def test_command(clouds_yaml: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """``fpgapool-run --os-cloud`` encrypts, and decrypts again."""
    (tmp_path / "key").write_text(HEX_KEY)
    (tmp_path / "in").write_bytes(DATA)
    for source, target in (("in", "secret"), ("secret", "out")):
        subprocess.run(
            commands.command(
                "run",
                *("aes", "--key-file", "key", "--iv", "00" * 16),
                *("--in", source, "--out", target, "--os-cloud", server.CLOUD),
            ),
            cwd=tmp_path,
            check=True,
            timeout=commands.LIMIT_S,
        )
    assert (tmp_path / "secret").read_bytes() != DATA
    assert (tmp_path / "out").read_bytes() == DATA


def test_wrong_credential(clouds_yaml: pathlib.Path) -> None:
    document = json.loads(clouds_yaml.read_text())
    auth = document["clouds"][server.CLOUD]["auth"]
    auth["application_credential_secret"] = "wrong"
    clouds_yaml.write_text(json.dumps(document))
    with pytest.raises(client.RequestRejected) as caught:
        client.acc_open(
            "copy", 1, front_door=client.PoolApi.from_cloud(server.CLOUD)
        )
    assert caught.value.code == "UNAUTHORIZED"
