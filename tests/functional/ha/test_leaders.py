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

"""Three conductors: leaders that die, freeze or do not want to go."""

from __future__ import annotations

import itertools
import logging
import random
import threading
import time
import typing
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from cryptography.hazmat.primitives import ciphers
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.ciphers import modes
from keystoneauth1 import adapter
from keystoneauth1 import noauth
from keystoneauth1 import session as keystone_session
from oslo_config import cfg

from fpgapool import client
from fpgapool import objects
from fpgapool.common import rpc
from fpgapool.db import models
from fpgapool.rpcapi import conductor as conductor_rpcapi
from tests.functional.api import harness
from tests.harness import cloud as clouds
from tests.harness import door as doors
from tests.harness import processes
from tests.harness import waiting
from tests.services import process

# Servers are started meanwhile, and the machine has much else to do.
# In the gate: system/test_conductors.py, db/test_database.py,
# api/test_sessions.py, and tests/world.
pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

LOG = logging.getLogger(__name__)

SLOTS = 3
QUEUED = 5
KILLS = 5
DOOR_CLIENTS = 12
API_CLIENTS = 8
LEASE_S = 2.0
#: How long clients wait for a leader, on such a machine.
PATIENCE_S = 20.0
GENERATION_BITS = 32


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    return make_cloud(
        clouds.HostPlan("board", slots=SLOTS),
        clouds.HostPlan("compute", slots=0),
        conductors=3,
        options={
            "conductor": {"lease_s": LEASE_S},
            "agent": {"open_timeout_s": PATIENCE_S},
        },
    )


@pytest.fixture(scope="module")
def api(
    cloud: clouds.Cloud, service_workspace: process.Workspace
) -> Iterator[harness.Server]:
    server = harness.Server(
        "api-ha", cloud, service_workspace, conductor_timeout_s=PATIENCE_S
    )
    server.start()
    yield server
    server.kill()


@pytest.fixture(autouse=True)
def all_conductors(cloud: clouds.Cloud) -> None:
    for conductor in cloud.conductors:
        conductor.start()
    waiting.wait_until(cloud.lease_holder, "somebody leads")
    cloud.wait_ready()


@pytest.fixture
def bus(cloud: clouds.Cloud) -> Iterator[conductor_rpcapi.ConductorAPI]:
    rpc.cleanup()
    rpc.init(cfg.CONF, url=cloud.transport_url)
    yield conductor_rpcapi.ConductorAPI(call_timeout_s=waiting.LIMIT_S)
    rpc.cleanup()


def leader_of(cloud: clouds.Cloud) -> processes.Daemon:
    """Return the conductor that leads."""
    holder = waiting.wait_until(cloud.lease_holder, "somebody leads")
    return next(one for one in cloud.conductors if one.name == holder)


def wait_for_another(
    cloud: clouds.Cloud, former: processes.Daemon
) -> processes.Daemon:
    """Wait until another conductor leads, and return it."""
    waiting.wait_until(
        lambda: cloud.lease_holder() not in ("", former.name),
        "another conductor leads",
    )
    return leader_of(cloud)


def last_epoch(cloud: clouds.Cloud) -> int:
    """Return the newest epoch in which a slot was given to a session."""
    query = sa.select(sa.func.max(models.sessions.c.generation))
    with cloud.database.engine.connect() as connection:
        generation = connection.scalar(query) or 0
    return int(generation) >> GENERATION_BITS


class Load:
    """Clients that encrypt one thing after another, and check it.

    :ivar done: how many were.
    :ivar problems: what went wrong.
    """

    def __init__(self, cloud: clouds.Cloud, api: harness.Server) -> None:
        paths = itertools.cycle(
            host.socket_path() for host in cloud.hosts.values()
        )
        fronts: list[str | client.PoolApi] = [
            next(paths) for _ in range(DOOR_CLIENTS)
        ]
        fronts += [_pool_api(api) for _ in range(API_CLIENTS)]
        self.done = 0
        self.problems: list[str] = []
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(number, front))
            for number, front in enumerate(fronts)
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int, front: str | client.PoolApi) -> None:
        rng = random.Random(f"load {number}")
        while not self._stopping.is_set():
            try:
                self._encrypt(rng, front)
            except Exception as error:
                with self._lock:
                    self.problems.append(f"client {number}: {error!r}")
                return
            with self._lock:
                self.done += 1

    def _encrypt(
        self, rng: random.Random, front: str | client.PoolApi
    ) -> None:
        text, key, iv = (
            rng.randbytes(size) for size in (2 * clouds.CHUNK_BYTES, 32, 16)
        )
        output, _ = client.run_buffer(
            "aes",
            text,
            params={"key": key, "iv": iv},
            front_door=front,
            timeout_s=3 * PATIENCE_S,
        )
        cipher = ciphers.Cipher(algorithms.AES(key), modes.CTR(iv))
        if output != cipher.encryptor().update(text):
            raise AssertionError("the output is wrong")


def _pool_api(api: harness.Server) -> client.PoolApi:
    endpoint = f"http://{api.address}/v1"
    return client.PoolApi(
        adapter.Adapter(
            keystone_session.Session(auth=noauth.NoAuth(endpoint=endpoint)),
            service_type="fpgapool",
            endpoint_override=endpoint,
            additional_headers={"X-Auth-Token": harness.TOKEN},
        )
    )


# It measures how soon the next one leads.
@pytest.mark.alone
def test_leaders_are_killed_under_load(cloud, api) -> None:
    """Stand-bys go on soon; clients get their data and notice nothing."""
    before = _session_counts(cloud)
    takeovers_s = []
    # Each of them within the limit of those who wait for it.
    with Load(cloud, api) as load:
        for _ in range(KILLS):
            leader = leader_of(cloud)
            epoch = cloud.lease().epoch
            waiting.wait_until(
                lambda epoch=epoch: last_epoch(cloud) >= epoch,
                "the leader gives slots to sessions",
            )
            killed_s = time.monotonic()
            leader.kill()
            waiting.wait_until(
                lambda epoch=epoch: load.problems or last_epoch(cloud) > epoch,
                "another one does",
            )
            assert not load.problems
            takeovers_s.append(time.monotonic() - killed_s)
            leader.start()
    assert not load.problems
    # Each was opened once, and none was lost.
    waiting.wait_until(
        lambda: set(_session_counts(cloud)) == {"CLOSED"},
        "all sessions are closed",
    )
    after = _session_counts(cloud)
    assert after["CLOSED"] - before.get("CLOSED", 0) == load.done
    cloud.check_consistent()
    texts = " ".join(f"{one:.2f}" for one in sorted(takeovers_s))
    LOG.info("%d sessions; first assignments after %s s", load.done, texts)


def _session_counts(cloud: clouds.Cloud) -> dict[str, int]:
    columns = models.sessions.c
    query = sa.select(columns.state, sa.func.count()).group_by(columns.state)
    with cloud.database.engine.connect() as connection:
        return dict(connection.execute(query).tuples().all())


def test_the_queue_is_the_same_for_the_next_leader(cloud, bus) -> None:
    """Places depend on arrival and claim, which both are recorded."""
    sizes = [9_000_000, 10, 500_000, 10, 9_000_000]
    with cloud.hosts["board"].door() as door:
        held = doors.hold_slots(door, SLOTS)
        requests = [door.open(size_bytes=size) for size in sizes]
        for request in requests:
            door.wait_state(request, "QUEUED")
        names = [door.views[one][-1]["session_id"] for one in requests]
        before = _places(bus, names)
        assert sorted(before) == list(range(len(sizes)))
        leader = leader_of(cloud)
        leader.kill()
        wait_for_another(cloud, leader)
        waiting.wait_until(
            lambda: _places(bus, names) == before, "the queue is as before"
        )
        for request in requests:
            door.request("cancel", request_id=request)
            door.wait_state(request, "CANCELLED")
        doors.let_go(held)
    cloud.check_consistent()


def _places(
    bus: conductor_rpcapi.ConductorAPI, names: list[str]
) -> list[int | None]:
    views = {view.session_id: view for view in bus.get_sessions(names)}
    return [views[name].queue_position for name in names]


def test_who_led_before_can_neither_write_nor_command(
    cloud, bus, service_workspace
) -> None:
    """It believes that it leads; database and agents know better."""
    for conductor in cloud.conductors:
        conductor.stop()
    first, second, _ = cloud.conductors
    former = processes.Daemon(
        "stubborn", service_workspace, "tests.functional.ha.stubborn"
    )
    former.config_path.write_text(first.config_path.read_text())
    former.start()
    try:
        waiting.wait_until(
            lambda: cloud.lease_holder() == first.name, "it leads"
        )
        wait_until_heard(cloud, former)
        epoch = cloud.lease().epoch
        second.start()
        wait_for_another(cloud, first)
        wait_until_heard(cloud, second)
        # To the old one, by the name that its epoch gives it.
        bus.note_leader(epoch)
        agent = cloud.hosts["board"].agent
        request = _request("for-the-old-one", cloud.hosts["board"])
        bus.open_session(request)
        former.wait_for_log("nothing more is written")
        agent.wait_for_log(f"epoch {epoch} (epoch)")
    finally:
        LOG.info("the former leader: %s", former.log())
        former.kill()
    assert cloud.lease_holder() == second.name
    assert cloud.session_record(request.request_id) is None
    with cloud.hosts["board"].door() as door:
        view = door.open_ready()
        assert view["generation"] >> GENERATION_BITS > epoch
        doors.let_go([door.attach(view)])
    assert last_epoch(cloud) > epoch
    cloud.check_consistent()


def wait_until_heard(cloud: clouds.Cloud, conductor: processes.Daemon) -> None:
    """Wait until a leader has heard all hosts."""
    for host in cloud.hosts.values():
        conductor.wait_for_log(f"Host {host.name} ({host.uuid}) is up")


def _request(name: str, host: clouds.Host) -> objects.OpenRequest:
    return objects.OpenRequest(
        request_id=name,
        project_id=clouds.PROJECT,
        user_id="",
        host_uuid=host.uuid,
        accelerator="copy",
        claimed_bytes=1,
        expires_at=time.time() + 60,
    )


def test_a_leader_that_was_frozen_gives_up(cloud) -> None:
    """It goes on where it stood, and is told that its epoch is over."""
    leader = leader_of(cloud)
    epoch = cloud.lease().epoch
    leader.pause()
    successor = wait_for_another(cloud, leader)
    wait_until_heard(cloud, successor)
    with cloud.hosts["board"].door() as door:
        doors.let_go([door.attach(door.open_ready())])
        leader.resume()
        leader.wait_for_log(f"Epoch {epoch} is over")
        doors.let_go([door.attach(door.open_ready())])
    assert cloud.lease_holder() == successor.name
    with cloud.database.engine.connect() as connection:
        columns = models.sessions.c
        newest_first = connection.scalars(
            sa.select(columns.generation).order_by(columns.id.desc()).limit(2)
        ).all()
    assert all(one >> GENERATION_BITS > epoch for one in newest_first)
    cloud.check_consistent()


def test_reading_needs_no_conductor(cloud, api) -> None:
    """What was recorded is told, and marked; what changes it has to wait."""
    with cloud.hosts["board"].door() as door:
        held = doors.hold_slots(door, SLOTS)
        waits = api.open().session
        leading = {path: api.ask("GET", path, token) for path, token in READS}
        shown = api.show(waits["id"])
        assert shown.session["queue_position"] == 0
        for conductor in cloud.conductors:
            conductor.kill()
        for path, token in READS:
            answer = api.ask("GET", path, token)
            assert answer.status == 200, path
            marked = answer.headers.get("openstack-fpgapool-source")
            assert marked == ("database" if path in ASKED else None)
            known = leading[path].document
            assert _members(answer.document) == _members(known)
        recorded = api.show(waits["id"])
        assert recorded.session["state"] == "QUEUED"
        assert recorded.session["queue_position"] is None
        quotas = api.ask("GET", "/v1/quotas").document["quota"]
        known = leading["/v1/quotas"].document["quota"]
        assert quotas == known
        asked_s = time.monotonic()
        for path, token in (*READS, *READS):
            api.ask("GET", path, token)
        # Nobody is waited for once it is known that nobody leads; a second
        # one would be too many.
        assert time.monotonic() - asked_s < waiting.LIMIT_S < 2 * PATIENCE_S
        refused = api.open()
        assert (refused.status, refused.code) == (503, "CONDUCTOR_UNAVAILABLE")
        assert int(refused.headers["retry-after"]) > 0
        for conductor in cloud.conductors:
            conductor.start()
        cloud.wait_ready()
        waiting.wait_until(
            lambda: api.show(waits["id"]).session["queue_position"] == 0,
            "the new leader is asked",
        )
        assert api.close(waits["id"]) == 204
        doors.let_go(held)
    for session in api.ask("GET", "/v1/sessions?state=QUEUED").document[
        "sessions"
    ]:
        api.close(session["id"])
    cloud.check_consistent(live=None)


#: Of these the conductor is asked if there is one.
ASKED = ("/v1/pool", "/v1/pool/snapshot", "/v1/quotas", "/v1/quotas/defaults")
READS = [
    *((path, harness.ADMIN_TOKEN) for path in ASKED[:2]),
    *((path, harness.TOKEN) for path in ASKED[2:3]),
    *((path, harness.ADMIN_TOKEN) for path in ASKED[3:]),
    ("/v1/sessions", harness.TOKEN),
    ("/v1/devices", harness.ADMIN_TOKEN),
    ("/v1/hosts", harness.ADMIN_TOKEN),
    ("/v1/slots", harness.ADMIN_TOKEN),
    ("/v1/accelerators", harness.TOKEN),
    ("/v1/bitstreams", harness.TOKEN),
    ("/v1/usage", harness.TOKEN),
    ("/v1/instances", harness.ADMIN_TOKEN),
]


def _members(document: dict[str, typing.Any]) -> list[str]:
    """Return the names of what is in a document, and in its only member."""
    (content, *_) = document.values()
    return [*document, *(content if isinstance(content, dict) else ())]
