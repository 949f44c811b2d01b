#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""A conductor and a database that are plain objects."""

import dataclasses
import json
import uuid
from typing import Any

import falcon.testing
from keystonemiddleware import opts as keystone_opts
from oslo_config import cfg

from fpgapool import conf as fpgapool_conf
from fpgapool import objects
from fpgapool.api import app
from fpgapool.api import call as calls
from fpgapool.api import policy
from fpgapool.api import routes
from fpgapool.api import waiters
from fpgapool.common import exception
from fpgapool.core import codes
from fpgapool.db import api as db_api
from fpgapool.objects import states
from tests.unit.api import answers

SECRET = "5ec7e7" * 8
HOST = str(uuid.UUID(int=7))

MEMBER = "eve:p1:member,reader"
READER = "rob:p1:reader"
STRANGER = "mallory:p2:member,reader"
ADMIN = "root:p9:admin,manager,member,reader"
SERVICE = "nova:p8:service"
NOBODY = "nobody:p1:none"


def view(number: int = 1, **members: Any) -> objects.SessionView:
    """Return a session of project p1 that is READY."""
    values: dict[str, Any] = {
        "session_id": str(uuid.UUID(int=number)),
        "request_id": f"r{number}",
        "project_id": "p1",
        "state": states.READY,
        "accelerator": "copy",
        "claimed_bytes": 1000,
        "revision": 3,
        "queued_at": 1.7e9,
        "slot_host_uuid": HOST,
        "slot_host_name": "compute1",
        "device": "board0",
        "slot": 1,
        "local": False,
        "endpoints": (
            objects.Endpoint("local", "", 0),
            objects.Endpoint("data", "10.0.0.1", 4000),
        ),
        "secret": SECRET,
        "certificate_sha256": "ab" * 32,
    }
    return objects.SessionView(**{**values, **members})


def queued(number: int = 1, **members: Any) -> objects.SessionView:
    """Return a session of project p1 that waits."""
    values: dict[str, Any] = {
        "state": states.QUEUED,
        "revision": 1,
        "queue_position": 4,
        "pending_reasons": (codes.NO_IDLE_SLOT, "NEW_REASON"),
        "endpoints": (),
        "secret": "",
        "certificate_sha256": None,
    }
    none = dict.fromkeys(
        ("slot_host_uuid", "slot_host_name", "device", "slot", "local")
    )
    return view(number, **{**values, **none, **members})


def ended(number: int = 1, **members: Any) -> objects.SessionView:
    """Return a session of project p1 that has been closed."""
    values: dict[str, Any] = {
        "state": states.CLOSED,
        "reason": codes.OK,
        "revision": 9,
        "finished_at": 1.7e9 + 5,
    }
    return queued(number, **{**values, "pending_reasons": (), **members})


class FakeConductor:
    """Knows the sessions that it is given, and does what it is told."""

    def __init__(self, *views: objects.SessionView) -> None:
        self.views = {one.session_id: one for one in views}
        self.requests: list[objects.OpenRequest] = []
        self.refusal: tuple[str, str] | None = None
        self.failure: Exception | None = None
        self.renewed: list[str] = []
        self.deaf = False

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure

    def submit_session(
        self, request: objects.OpenRequest
    ) -> objects.SessionView:
        self._fail()
        self.requests.append(request)
        if self.refusal is not None:
            code, message = self.refusal
            return queued(
                session_id="",
                state=states.REJECTED,
                reason=code,
                message=message,
            )
        made = queued(
            len(self.views) + 100,
            request_id=request.request_id,
            project_id=request.project_id,
            host_uuid=request.host_uuid,
        )
        self.views[made.session_id] = made
        return made

    def get_sessions(self, session_ids: Any) -> list[objects.SessionView]:
        self._fail()
        return [self.views[id_] for id_ in session_ids if id_ in self.views]

    def changed_sessions(self, revisions: Any) -> Any:
        self._fail()
        changed = [
            self.views[id_]
            for id_, revision in revisions.items()
            if id_ in self.views and self.views[id_].revision != revision
        ]
        return changed, [id_ for id_ in revisions if id_ not in self.views]

    def cancel_session(
        self, project_id: str, *, session_id: str, reason: str
    ) -> None:
        self._fail()
        known = self.views[session_id]
        assert known.project_id == project_id
        if not self.deaf:
            self.views[session_id] = dataclasses.replace(
                known,
                state=states.CANCELLED,
                reason=reason,
                revision=known.revision + 1,
            )

    def reopen_session(
        self,
        project_id: str,
        *,
        session_id: str,
        generation: int,
        host_uuid: str,
    ) -> None:
        self._fail()
        known = self.views[session_id]
        assert (known.project_id, host_uuid) == (project_id, "")
        movable = known.state == states.ACTIVE or known.reason in (
            codes.REOPENABLE
        )
        if movable and known.generation == generation and not self.deaf:
            self.views[session_id] = dataclasses.replace(
                known, state=states.QUEUED, revision=known.revision + 1
            )

    def renew_secret(self, session_id: str) -> None:
        self.renewed.append(session_id)
        if not self.deaf:
            known = self.views[session_id]
            self.views[session_id] = dataclasses.replace(
                known, secret="a" * 64, revision=known.revision + 1
            )

    def pool_summary(self) -> dict[str, Any]:
        self._fail()
        slot = {
            "slot": 0,
            "shape": "medium",
            "state": "idle",
            "accelerator": None,
            "programmed": None,
            "novelty": 1,
        }
        device = {"name": "board0", "healthy": True, "slots": [slot]}
        host = {
            "uuid": HOST,
            "name": "compute1",
            "up": True,
            "link_message": "not capped",
            "last_report_at": 1.7e9,
            "devices": [device],
        }
        return {
            "strategy": "wra",
            "hosts": [host],
            "waiting": 3,
            "sessions": {"QUEUED": 3},
        }


class FakeDatabase:
    """Holds two hosts, of which one has a board with four slots."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.records = [
            record(number, project_id=f"p{number % 2 + 1}")
            for number in range(1, 8)
        ]
        self.asked: list[dict[str, Any]] = []

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure

    def accelerators(self) -> list[db_api.AcceleratorRecord]:
        self._fail()
        return [
            db_api.AcceleratorRecord(
                name=name, profile={"peak_bytes_per_s": 1e9, "core": name}
            )
            for name in ("aes", "copy", "fft")
        ]

    def read_lease(self) -> db_api.Lease:
        self._fail()
        return db_api.Lease(holder="controller1", epoch=4, renewals=2)

    def inventory(self) -> db_api.Inventory:
        self._fail()
        return db_api.Inventory(
            hosts=[
                db_api.HostRecord(
                    id=1,
                    uuid=HOST,
                    name="compute1",
                    nic_bytes_per_s=1e9,
                    up=True,
                ),
                db_api.HostRecord(
                    id=2,
                    uuid=str(uuid.UUID(int=8)),
                    name="compute2",
                    nic_bytes_per_s=1e9,
                ),
            ],
            devices=[
                db_api.DeviceRecord(
                    id=1,
                    host_id=1,
                    name="board0",
                    model="test",
                    dma_bytes_per_s=2e9,
                )
            ],
            slots=[
                db_api.SlotRecord(
                    id=number,
                    device_id=1,
                    number=number - 1,
                    shape="medium",
                    faulty=number == 4,
                )
                for number in range(1, 5)
            ],
            holders=[
                db_api.SlotHolder(
                    slot_id=number,
                    accelerator="copy",
                    phase="ACTIVE",
                    session_id=str(uuid.UUID(int=number)),
                    project_id=f"p{number}",
                )
                for number in (1, 2)
            ],
        )

    def get_session(self, session_id: str) -> db_api.SessionRecord | None:
        self._fail()
        for one in self.records:
            if one.session_id == session_id:
                return one
        return None

    def list_sessions(
        self, filters: db_api.SessionFilter, **options: Any
    ) -> list[db_api.SessionRecord]:
        self._fail()
        self.asked.append({"filters": filters, **options})
        found = [
            one
            for one in reversed(self.records)
            if filters.project_id in (None, one.project_id)
        ]
        names = [one.session_id for one in found]
        if options["marker"] is not None:
            found = found[names.index(options["marker"]) + 1 :]
        return found[: options["limit"]]

    def close(self) -> None:
        pass


def record(number: int, **members: Any) -> db_api.SessionRecord:
    """Return a session's row."""
    values: dict[str, Any] = {
        "session_id": str(uuid.UUID(int=number)),
        "request_id": f"r{number}",
        "project_id": "p1",
        "user_id": "u1",
        "host_id": 1,
        "accelerator": "copy",
        "claimed_bytes": 1000,
        "state": states.QUEUED,
        "connect_timeout_s": 30.0,
        "resume_grace_s": 10.0,
        "queued_at": 1.7e9 + number,
    }
    return db_api.SessionRecord(id=number, **{**values, **members})


def configuration(**options: Any) -> cfg.ConfigOpts:
    """Return a configuration without Keystone."""
    conf = cfg.ConfigOpts()
    fpgapool_conf.register_opts(conf)
    for group, group_opts in keystone_opts.list_auth_token_opts():
        conf.register_opts(group_opts, group=group)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override(
        "www_authenticate_uri",
        "http://keystone.example.org",
        group="keystone_authtoken",
    )
    for name, value in {"auth_strategy": "noauth", **options}.items():
        conf.set_override(name, value, group="api")
    return conf


class World:
    """The application with nothing real behind it.

    :param views: sessions that the conductor knows.
    :param table: the API.
    :param options: of ``[api]``.
    """

    def __init__(
        self,
        *views: objects.SessionView,
        table: Any = routes.ROUTES,
        max_waiters: int = 4,
        **options: Any,
    ) -> None:
        self.conductor = FakeConductor(*views)
        self.database = FakeDatabase()
        self.conf = configuration(**options)
        self._options = ("auth_strategy", *options)
        self.waiting = waiters.Waiters(
            self.conductor.changed_sessions,
            max_waiters=max_waiters,
            interval_s=0.001,
        )
        self.backends = calls.Backends(
            conductor=self.conductor,  # type: ignore[arg-type]
            database=self.database,  # type: ignore[arg-type]
            waiting=self.waiting,
            enforcer=policy.Enforcer(self.conf),
            limits=calls.Limits(
                max_body_bytes=self.conf.api.max_body_bytes,
                max_page_length=self.conf.api.max_page_length,
                max_wait_s=self.conf.api.max_wait_s,
            ),
        )
        self.app = app.build(self.conf, self.backends, table)
        self.client = falcon.testing.TestClient(self.app)

    def ask(
        self,
        method: str,
        path: str,
        token: str = MEMBER,
        *,
        body: Any = None,
        check: bool = True,
        headers: dict[str, str] | None = None,
        **options: Any,
    ) -> falcon.testing.Result:
        """Send a request and check what all answers have in common."""
        sent = {"X-Auth-Token": token, **(headers or {})}
        options.setdefault("remote_addr", "127.0.0.1")
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
            options["body"] = (
                body if isinstance(body, bytes) else json.dumps(body)
            )
        answer = self.client.simulate_request(
            method, path, headers=sent, **options
        )
        if check:
            answers.check(
                method,
                path,
                answer.status_code,
                answer.headers,
                answer.json if answer.content else None,
            )
        return answer

    def error(self, *arguments: Any, **options: Any) -> tuple[int, str]:
        """Send a request that fails; :returns: status and code."""
        answer = self.ask(*arguments, **options)
        return answer.status_code, answer.json["errors"][0]["code"]

    def close(self) -> None:
        """End the thread, and forget the options."""
        self.waiting.close()
        # What is registered of a group is shared by all configurations.
        for name in self._options:
            self.conf.clear_override(name, group="api")


UNAVAILABLE = exception.DatabaseUnavailable(reason="gone")
