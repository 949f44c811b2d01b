# SPDX-License-Identifier: Apache-2.0

"""Every operation of the API, asked for by everybody who may not.

The table of operations is the API's own, so that a new one is asked for by
being there. Whoever has no token, a wrong one, one that counts no more, or
one for something else, is told 401, 403 or 404, learns nothing of others,
and changes nothing.
"""

from __future__ import annotations

import base64
import copy
import dataclasses
import gzip
import json
import pathlib
import uuid
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import falcon.testing
import pytest

from fpgapool import objects
from fpgapool.api import call as calls
from fpgapool.api import routes
from fpgapool.api.http import instances
from fpgapool.api.http import rights
from fpgapool.bitstreams import files
from fpgapool.bitstreams import signatures
from fpgapool.bitstreams import stores
from fpgapool.conductor.decisions import limits
from fpgapool.db import api as db_api
from fpgapool.objects import instance
from fpgapool.vocabulary import codes
from tests.property import fuzzing
from tests.unit.api import fakes

KEY = "k" * 32
NONCE = "0" * 32
OWNER = str(uuid.UUID(int=0xA))
NEIGHBOUR = str(uuid.UUID(int=0xB))
FOREIGNER = str(uuid.UUID(int=0xC))
REVOKED = str(uuid.UUID(int=0xD))
DELETED = str(uuid.UUID(int=0xE))
UNKNOWN = str(uuid.UUID(int=0xF))
BITSTREAM = str(uuid.UUID(int=99))

#: What is right to say where something has to be said.
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/v1/bitstreams"): {
        "bitstream": {
            "accelerator": "mine",
            "shapes": ["medium"],
            "profile": {"peak_bytes_per_s": 1e8},
        }
    },
    ("PATCH", "/v1/bitstreams/{bitstream_id}"): {"bitstream": {"name": "b"}},
    ("POST", "/v1/bitstreams/{bitstream_id}/approve"): {"approve": {}},
    ("POST", "/v1/bitstreams/{bitstream_id}/reject"): {
        "reject": {"reason": "no"}
    },
    ("PATCH", "/v1/hosts/{host_uuid}"): {"state": "disabled"},
    ("PATCH", "/v1/devices/{device_id}"): {"state": "disabled"},
    ("POST", "/v1/slots/{slot_id}/test"): {"test": {}},
    ("POST", "/v1/sessions"): {
        "session": {"accelerator": "copy", "claimed_bytes": 1}
    },
    ("POST", "/v1/sessions/{session_id}/reopen"): {
        "reopen": {"generation": 1}
    },
    ("POST", "/v1/groups"): {
        "group": {"name": "b", "accelerator": "copy", "size": 1}
    },
    ("PATCH", "/v1/groups/{group_id}"): {"group": {"name": "b"}},
    ("PUT", "/v1/groups/{group_id}/goal"): {"goal": {"rate_per_s": 5}},
    ("POST", "/v1/vendordata"): {"instance-id": OWNER},
    ("PUT", "/v1/budgets/{project_id}"): {"budget": {"slot_s": 1}},
    ("POST", "/v1/reservations"): {"reservation": fakes.RESERVED},
    ("PATCH", "/v1/reservations/{reservation_id}"): {
        "reservation": {"name": "b"}
    },
    ("PUT", "/v1/quotas/{project_id}"): {"quota": {"queued_sessions": 1}},
}

PRIVATE = [
    pytest.param(route, id=f"{route.method} {route.path}")
    for route in routes.ROUTES
    if not route.public
]

#: What everybody may do in a project of its own: nothing there names a thing
#: of another one.
ANYBODYS = {
    "GET /v1/accelerators",
    "GET /v1/accelerators/{name}",
    "GET /v1/bitstreams",
    "GET /v1/budgets",
    "GET /v1/groups",
    "GET /v1/sessions",
    "GET /v1/instances",
    "GET /v1/pool",
    "GET /v1/quotas",
    "GET /v1/quotas/defaults",
    "GET /v1/reservations",
    "GET /v1/share",
    "GET /v1/usage",
}
_CREATED = {
    "POST /v1/bitstreams",
    "POST /v1/groups",
    "POST /v1/reservations",
    "POST /v1/sessions",
}
MEMBERS = ANYBODYS | _CREATED
INSTANCES = {
    "GET /v1/accelerators",
    "GET /v1/accelerators/{name}",
    "GET /v1/groups",
    "POST /v1/sessions",
    "GET /v1/sessions",
}
#: What else an instance may do in its own project: groups are its project's.
_ATTACHES = "POST /v1/groups/{group_id}/clients"
NEIGHBOURS = INSTANCES | {
    "GET /v1/groups/{group_id}",
    "GET /v1/groups/{group_id}/clients",
    _ATTACHES,
}


def token_of(name: str, **changes: str) -> str:
    """Return the token of an instance, right but for the changes."""
    values = {"key": KEY, "instance_id": name, "nonce": NONCE, **changes}
    return instances.make_token(**values)


def _stolen_name() -> str:
    """Return a token that names another instance than its seal."""
    seal = base64.urlsafe_b64decode(token_of(FOREIGNER)[4:])[16:]
    forged = base64.urlsafe_b64encode(uuid.UUID(OWNER).bytes + seal)
    return instances.PREFIX + forged.decode()


#: Credentials that are none.
NOBODIES: dict[str, dict[str, str]] = {
    "none": {},
    "empty": {"X-Auth-Token": ""},
    "forged": {"X-Auth-Token": token_of(OWNER, key="x" * 32)},
    "former": {"X-Auth-Token": token_of(OWNER, nonce="1" * 32)},
    "stolen name": {"X-Auth-Token": _stolen_name()},
    "revoked": {"X-Auth-Token": token_of(REVOKED)},
    "deleted": {"X-Auth-Token": token_of(DELETED)},
    "unknown": {"X-Auth-Token": token_of(UNKNOWN)},
    "bearer": {"Authorization": f"Bearer {token_of(REVOKED)}"},
    "headers only": {
        "X-Identity-Status": "Confirmed",
        "X-Roles": "admin",
        "X-User-Id": "root",
        "X-Project-Id": "p1",
    },
}


class Scene:
    """An API with something of project p1 behind every path."""

    def __init__(
        self,
        make_world: Callable[..., fakes.Api],
        directory: pathlib.Path,
        strategy: str,
    ) -> None:
        user_id = instance.user_of(OWNER)
        self.session = fakes.view(500, user_id=user_id)
        store = files.FileStore(directory / "store")
        self.world = make_world(
            self.session,
            auth_strategy=strategy,
            files=calls.Files(
                store=store,
                trusted_keys=signatures.TrustedKeys(str(directory)),
                sweeper=stores.Sweeper(store, None, 3600),  # type: ignore[arg-type]
                signature_required=False,
                max_size_bytes=10**6,
            ),
        )
        self.world.conductor.change_bitstream(
            objects.CreateBitstream(
                bitstream_id=BITSTREAM,
                project_id="p1",
                user_id="eve",
                name="mine",
                accelerator="mine",
                version="1",
                profile={"peak_bytes_per_s": 1e8},
            )
        )
        for change in (
            objects.CreateGroup(
                group_id=fakes.GROUP,
                project_id="p1",
                accelerator="copy",
                name="mine",
                size=1,
            ),
            objects.AttachClient(
                client_id=fakes.CLIENT,
                group_id=fakes.GROUP,
                project_id="p1",
                user_id=user_id,
                secret_hash="ab" * 32,
            ),
        ):
            self.world.conductor.change_group(change)
        self.world.conductor.set_reservation(
            fakes.RESERVATION,
            {
                "accelerator": "copy",
                "slots": 1,
                "start_s": fakes.NOW,
                "end_s": fakes.NOW + 3600,
            },
            project_id="p1",
            user_id="eve",
        )
        database = self.world.database
        database.records.append(fakes.record(500, user_id=user_id))
        for number, (name, project_id, members) in enumerate(
            (
                (OWNER, "p1", {}),
                (NEIGHBOUR, "p1", {}),
                (FOREIGNER, "p2", {}),
                (REVOKED, "p1", {"token_revoked": True}),
                (DELETED, "p1", {"deleted_at": 1.8e9}),
            )
        ):
            database.instances[name] = db_api.InstanceRecord(
                id=number,
                instance_id=name,
                project_id=project_id,
                name="vm",
                token_nonce=NONCE,
                token_hash=instances.hash_token(token_of(name)),
                created_at=1.7e9,
                **members,
            )

    def paths(self, route: routes.Route) -> str:
        """Return the path of what belongs to project p1."""
        return fakes.path_of(
            route,
            device_id=f"{fakes.HOST}-board0",
            slot_id=f"{fakes.HOST}-board0-0",
            bitstream_id=BITSTREAM,
            session_id=self.session.session_id,
            instance_id=OWNER,
        )

    def state(self) -> Any:
        """Return all that a request could change."""
        conductor = self.world.conductor
        return copy.deepcopy(
            (
                conductor.views,
                conductor.requests,
                conductor.revoked,
                conductor.renewed,
                conductor.quotas,
                list(conductor.catalogue.bitstreams),
                list(conductor.groups.groups.values()),
                conductor.groups.clients_of(fakes.GROUP),
                conductor.calendar.entries,
            )
        )

    def ask(
        self, route: routes.Route, headers: dict[str, str]
    ) -> falcon.testing.Result:
        """Ask for an operation, with a body that makes sense."""
        body = BODIES.get((route.method, route.path))
        options: dict[str, Any] = {} if body is None else {"json": body}
        if route.upload:
            headers = {**headers, "Content-Type": "application/octet-stream"}
            options = {"body": b"data"}
        return self.world.client.simulate_request(
            route.method,
            self.paths(route),
            headers=headers,
            remote_addr="127.0.0.1",
            **options,
        )


def test_there_is_a_body_for_every_operation_that_needs_one():
    assert set(BODIES) == {
        (route.method, route.path)
        for route in routes.ROUTES
        if route.body is not None
    }


@pytest.mark.parametrize("kind", NOBODIES)
def test_who_is_nobody(make_world, tmp_path, kind):
    """No credentials, forged ones, and those that count no more: 401."""
    scene = Scene(make_world, tmp_path, "keystone")
    before = scene.state()
    for route in routes.ROUTES:
        if route.public:
            continue
        answer = scene.ask(route, NOBODIES[kind])
        assert answer.status_code == 401, (route.method, route.path)
        assert answer.json["errors"][0]["code"] == codes.UNAUTHORIZED
        assert answer.headers["WWW-Authenticate"]
    assert scene.state() == before


def _refused(scene: Scene, headers: dict[str, str], but: set[str]) -> None:
    """Ask for everything: only what is named is answered, and harmless."""
    before = scene.state()
    answered = set()
    for route in routes.ROUTES:
        if route.public:
            continue
        operation = f"{route.method} {route.path}"
        old = scene.state()
        answer = scene.ask(route, headers)
        told = answer.text
        if answer.status_code not in (403, 404):
            assert answer.status_code == route.status, (operation, told)
            answered.add(operation)
        for secret in (
            scene.session.session_id,
            scene.session.secret,
            BITSTREAM,
            OWNER,
        ):
            if answer.status_code < 400:
                assert secret not in told, operation
        if operation not in (*_CREATED, _ATTACHES):
            assert scene.state() == old, operation
    assert answered == but
    # What came to it is the caller's own.
    for now, old in zip(scene.state(), before, strict=True):
        if isinstance(old, dict):
            assert {name: now[name] for name in old} == old
        else:
            assert now[: len(old)] == old


def test_instances_of_another_project(make_world, tmp_path):
    """The token of an instance is for its own project."""
    scene = Scene(make_world, tmp_path, "keystone")
    _refused(scene, {"X-Auth-Token": token_of(FOREIGNER)}, INSTANCES)
    assert {one.project_id for one in scene.world.conductor.requests} == {"p2"}


def test_other_instances_of_the_project(make_world, tmp_path):
    """The token of an instance is for its own sessions."""
    scene = Scene(make_world, tmp_path, "keystone")
    _refused(scene, {"X-Auth-Token": token_of(NEIGHBOUR)}, NEIGHBOURS)
    assert {one.user_id for one in scene.world.conductor.requests} == {
        instance.user_of(NEIGHBOUR)
    }


def test_members_of_another_project(make_world, tmp_path):
    """What belongs to a project does not exist for the others."""
    scene = Scene(make_world, tmp_path, "noauth")
    _refused(scene, {"X-Auth-Token": fakes.STRANGER}, MEMBERS)
    assert {one.project_id for one in scene.world.conductor.requests} == {"p2"}


def test_users_without_a_role(make_world, tmp_path):
    """Who has no role in the project may do nothing."""
    _refused(
        Scene(make_world, tmp_path, "noauth"),
        {"X-Auth-Token": fakes.NOBODY},
        set(),
    )


@pytest.mark.parametrize("route", PRIVATE)
def test_readers_change_nothing(make_world, tmp_path, route):
    """Who may only read, only reads."""
    scene = Scene(make_world, tmp_path, "noauth")
    before = scene.state()
    answer = scene.ask(route, {"X-Auth-Token": fakes.READER})
    if route.method != "GET":
        assert answer.status_code in (403, 404)
    assert scene.state() == before


@pytest.mark.parametrize("address", ["10.0.0.1", "::ffff:10.0.0.1", "", "x"])
def test_other_machines_without_authentication(make_world, tmp_path, address):
    """Where everything is believed, only this machine is served."""
    scene = Scene(make_world, tmp_path, "noauth")
    before = scene.state()
    for route in routes.ROUTES:
        if route.public:
            continue
        answer = scene.world.client.simulate_request(
            route.method,
            scene.paths(route),
            headers={
                "X-Auth-Token": fakes.ADMIN,
                "X-Forwarded-For": "127.0.0.1",
                "Forwarded": "for=127.0.0.1",
            },
            remote_addr=address,
        )
        assert answer.status_code == 403, (route.method, route.path)
    assert scene.state() == before


# -- names -------------------------------------------------------------------

#: Nothing but what it sends is wrong with this one.
ALMIGHTY = (
    "root:p1:admin,manager,member,reader,service,"
    f"{rights.AGENT_ROLE},{rights.VENDORDATA_ROLE}"
)

ODD_NAMES = {
    "parents": "..%2F..%2F..%2Fetc%2Fpasswd",
    "doubly": "%252e%252e%252fetc%252fpasswd",
    "dots": "%2e%2e",
    "zero": "a%00b",
    "long": "a" * 5000,
    "unicode": "%F0%9F%90%9A%E2%80%AE",
    "no unicode": "%ff%fe",
    "surrogate": "%ED%A0%80",
    "line": "a%0d%0aX-Evil:%201",
    "sql": "'%20OR%201=1--",
    "percent": "%25s%25n",
}


#: Whatever Keystone may call a project can have these.
_OF_PROJECTS = ("/v1/budgets", "/v1/quotas")


@pytest.mark.parametrize("kind", ODD_NAMES)
def test_names_that_are_paths(make_world, tmp_path, kind):
    """Whatever stands for a name in a path is the name of nothing.

    Even an administrator gets no file by it, and no error of ours.
    """
    scene = Scene(make_world, tmp_path, "noauth")
    before = scene.state()
    for route in routes.ROUTES:
        if "{" not in route.path or route.path.startswith(_OF_PROJECTS):
            continue
        path = route.path
        while "{" in path:
            start, _, rest = path.partition("{")
            path = start + ODD_NAMES[kind] + rest.partition("}")[2]
        body = BODIES.get((route.method, route.path))
        answer = scene.world.client.simulate_request(
            route.method,
            path,
            headers={"X-Auth-Token": ALMIGHTY},
            remote_addr="127.0.0.1",
            **({} if body is None else {"json": body}),
        )
        assert answer.status_code in (400, 404, 405, 415), path
        assert "X-Evil" not in answer.headers
        assert "root:" not in answer.text
    assert scene.state() == before


# -- bodies ------------------------------------------------------------------

BODY_BOMBS = {
    "nothing": b"",
    "lists in lists": b'{"a":' + b"[" * 9000 + b"]" * 9000 + b"}",
    "lists without end": b"[" * 50_000,
    "objects in objects": b'{"a":' * 9000 + b"1" + b"}" * 9000,
    "many digits": b'{"a": ' + b"9" * 50_000 + b"}",
    "large exponent": b'{"session": {"claimed_bytes": 1e999999}}',
    "no number": b'{"session": {"claimed_bytes": NaN}}',
    "half a character": b'{"\\ud800": "\\udfff"}',
    "no unicode": b'{"a": "\xff\xfe"}',
    "other encoding": '{"a": 1}'.encode("utf-16"),
    "compressed": gzip.compress(b"[" * 10**6),
    "too long": b" " * (2 * 1024 * 1024),
}


@pytest.mark.parametrize("kind", BODY_BOMBS)
def test_bodies_that_are_bombs(make_world, tmp_path, kind):
    """Whatever is sent as a document is refused as what the sender did."""
    scene = Scene(make_world, tmp_path, "noauth")
    before = scene.state()
    for route in routes.ROUTES:
        if route.body is None:
            continue
        for encoding in ({}, {"Content-Encoding": "gzip"}):
            answer = scene.world.client.simulate_request(
                route.method,
                scene.paths(route),
                headers={
                    "X-Auth-Token": ALMIGHTY,
                    "Content-Type": "application/json",
                    **encoding,
                },
                body=BODY_BOMBS[kind],
                remote_addr="127.0.0.1",
            )
            assert answer.status_code in (400, 413, 415), route
            assert answer.json["errors"][0]["code"]
    assert scene.state() == before


# -- texts that no database takes --------------------------------------------


def _unwritable(value: Any) -> list[str]:
    """Return what of a value PostgreSQL, or no database, takes as text."""
    if isinstance(value, str):
        return [] if limits.writable(value) == value else [value]
    if dataclasses.is_dataclass(value):
        value = [
            getattr(value, field.name)
            for field in dataclasses.fields(value)
            # Made writable where it is written.
            if field.name not in ("description", "reason", "signature")
        ]
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if not isinstance(value, list | tuple | set | frozenset):
        return []
    return [text for part in value for text in _unwritable(part)]


def _watched(cls: type, told: list[tuple[str, list[str]]]) -> type:
    """Return a class that notes the texts that its methods should not get."""

    class Watched(cls):
        def __getattribute__(self, name: str) -> Any:
            found = super().__getattribute__(name)
            if name.startswith("_") or not callable(found):
                return found

            def method(*args: Any, **kwargs: Any) -> Any:
                texts = _unwritable((args, kwargs))
                # The library looks at what becomes of bitstreams itself.
                if texts and name != "change_bitstream":
                    told.append((name, texts))
                return found(*args, **kwargs)

            return method

    return Watched


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[Any]:
    """Give where in a document something is that has no parts."""
    parts: Any = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        parts = enumerate(value)
    for name, part in parts:
        yield from _leaves(part, (*path, name))
    if not parts:
        yield path


GOAL = {"deadline_at": "2030-01-01", "actions": 5}
#: What else may be said in these bodies.
_MORE: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/v1/bitstreams"): {
        "name": "b",
        "description": "d",
        "version": "1",
        "profile": {
            "peak_bytes_per_s": 1e8,
            "params_schema": {"type": "object", "title": "t"},
        },
        "properties": {"a": "b"},
        "checksum_sha256": "0" * 64,
        "signature": "s",
    },
    ("PATCH", "/v1/bitstreams/{bitstream_id}"): {"description": "d"},
    ("POST", "/v1/sessions"): {"request_id": "r", "host_uuid": fakes.HOST},
    ("POST", "/v1/groups"): {"shared": True, "projects": ["p2"], "goal": GOAL},
    ("PATCH", "/v1/groups/{group_id}"): {"projects": ["p2"]},
}
#: Bodies with all that may be said.
FULL_BODIES = BODIES | {
    operation: {
        kind: {**members, **more}
        for kind, members in BODIES[operation].items()
    }
    for operation, more in _MORE.items()
}
FULL_BODIES["PUT", "/v1/groups/{group_id}/goal"] = {"goal": GOAL}
FULL_BODIES["POST", "/v1/vendordata"] = {
    "instance-id": OWNER,
    "project-id": "p1",
    "hostname": "vm",
    "metadata": {"a": "b"},
}


def _requests(scene: Scene, route: routes.Route) -> Iterator[dict[str, Any]]:
    """Give requests with one text each that no database takes."""
    path = scene.paths(route)
    for number, part in enumerate(route.path.split("/")):
        if "{" in part:
            parts = path.split("/")
            parts[number] = "a%00b"
            yield {"path": "/".join(parts)}
    for name in route.query.get("properties", {}):
        for text in ("a%00b", "%ED%A0%80"):
            yield {"path": path, "query_string": f"{name}={text}"}
    body = FULL_BODIES.get((route.method, route.path))
    for place in _leaves(body) if body else ():
        for text in ("a\0b", "\ud800"):
            document = json.dumps(fuzzing.with_leaf(body, place, text))
            yield {"path": path, "body": document}


@pytest.mark.parametrize("route", PRIVATE)
def test_texts_that_no_database_takes(make_world, tmp_path, route):
    """Neither the database nor the conductor ever sees them."""
    scene = Scene(make_world, tmp_path, "noauth")
    told: list[tuple[str, list[str]]] = []
    for behind in (scene.world.database, scene.world.conductor):
        behind.__class__ = _watched(type(behind), told)
    for request in _requests(scene, route):
        answer = scene.world.client.simulate_request(
            route.method,
            headers={
                "X-Auth-Token": ALMIGHTY,
                "Content-Type": "application/json",
            },
            remote_addr="127.0.0.1",
            **request,
        )
        assert not told, request
        assert answer.status_code < 500, request


# What a browser on this machine is made to send.

LOOPBACK_NAMES = ["localhost", "LOCALHOST:8778", "127.0.0.1:8778", "[::1]:1"]
OTHER_NAMES = [
    "attacker.example.org",
    "attacker.example.org:8778",
    "localhost.example.org",
    "127.0.0.1.example.org",
    "10.0.0.1:8778",
    "[::",
    "",
]


def _host_of(scene: Scene, host: str, **headers: str) -> Any:
    """Ask for the pool as a browser does whose page is from a host."""
    return scene.world.client.simulate_request(
        "GET",
        "/v1/pool",
        headers={"Host": host, **headers},
        remote_addr="127.0.0.1",
    )


@pytest.mark.security
@pytest.mark.parametrize("host", OTHER_NAMES)
def test_names_of_others_without_authentication(make_world, tmp_path, host):
    """A name that was rebound to this machine opens nothing.

    Also if a page says of itself that a proxy has sent it.
    """
    scene = Scene(make_world, tmp_path, "noauth")
    scene.world.conf.set_override(
        "enable_proxy_headers_parsing", True, group="oslo_middleware"
    )
    for headers in ({}, {"X-Forwarded-Host": "localhost"}):
        answer = _host_of(scene, host, **headers)
        assert answer.status_code == 403
        (error,) = answer.json["errors"]
        assert error["code"] == codes.HOST_NOT_LOOPBACK
        assert "localhost" in error["detail"]


@pytest.mark.parametrize("host", LOOPBACK_NAMES)
def test_names_of_this_machine_without_authentication(
    make_world, tmp_path, host
):
    """Programs on this machine are served by any of its loopback names."""
    scene = Scene(make_world, tmp_path, "noauth")
    assert _host_of(scene, host).status_code == 200


def test_any_name_with_authentication(make_world, tmp_path):
    """Where Keystone is asked, the name protects nothing."""
    scene = Scene(make_world, tmp_path, "keystone")
    answer = _host_of(
        scene, "fpga.example.org", **{"X-Auth-Token": token_of(OWNER)}
    )
    assert answer.json["errors"][0]["code"] == codes.FORBIDDEN
