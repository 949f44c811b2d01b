# SPDX-License-Identifier: Apache-2.0

"""Three conductors: leaders that die under load."""

from __future__ import annotations

import itertools
import logging
import random
import threading
import time
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from keystoneauth1 import adapter
from keystoneauth1 import noauth
from keystoneauth1 import session as keystone_session

from fpgapool import client
from fpgapool.db import models
from tests.functional.api import harness
from tests.harness import cloud as clouds
from tests.harness import processes
from tests.harness import programs
from tests.harness import waiting
from tests.services import process

# Servers are started meanwhile, and the machine has much else to do.
# In the gate: system/test_conductors.py and tests/world.
pytestmark = pytest.mark.long

LOG = logging.getLogger(__name__)

SLOTS = 3
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


def leader_of(cloud: clouds.Cloud) -> processes.Daemon:
    """Return the conductor that leads."""
    holder = waiting.wait_until(cloud.lease_holder, "somebody leads")
    return next(one for one in cloud.conductors if one.name == holder)


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
        aes = programs.Aes(rng)
        text = rng.randbytes(2 * clouds.CHUNK_BYTES)
        output, _ = client.run_buffer(
            "aes",
            text,
            params=aes.params,
            front_door=front,
            timeout_s=3 * PATIENCE_S,
        )
        if output != aes.encrypt(text):
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
