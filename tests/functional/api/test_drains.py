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
"""An operator enables, drains and disables boards that are in use."""

from __future__ import annotations

import hashlib
import queue
import threading
from collections.abc import Iterator

import pytest

from fpgapool import client
from tests.functional.api import harness
from tests.harness import cloud as clouds
from tests.harness import programs

# In the gate: tests/unit/core/test_drains.py,
# tests/unit/api/test_administration.py, and tests/world.
pytestmark = pytest.mark.long

CHUNK = clouds.CHUNK_BYTES
#: How many chunks a stream has, and how many have gone when it has begun.
CHUNKS, BEGUN_CHUNKS = 40, 4
ADMIN = harness.ADMIN_TOKEN


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    return make_cloud(
        clouds.HostPlan("alpha", slots=1),
        clouds.HostPlan("beta", slots=1),
        clouds.HostPlan("compute", slots=0),
    )


@pytest.fixture(autouse=True)
def all_enabled(api) -> Iterator[None]:
    yield
    for device in devices(api).values():
        assert change(api, device, state="enabled").status == 200
    for host in api.ask("GET", "/v1/hosts", ADMIN).document["hosts"]:
        path = f"/v1/hosts/{host['uuid']}"
        answer = api.ask("PATCH", path, ADMIN, {"state": "enabled"})
        assert answer.document["host"]["admin_state"] == "enabled"


def devices(api: harness.Server) -> dict[str, dict]:
    """Return the boards, by the names of their hosts."""
    found = api.ask("GET", "/v1/devices", ADMIN).document["devices"]
    return {one["host_name"]: one for one in found}


def change(
    api: harness.Server, device: dict, token: str = ADMIN, **wish: object
) -> harness.Answer:
    """Say what is to become of a board."""
    return api.ask("PATCH", f"/v1/devices/{device['id']}", token, wish)


def wait_admin_state(api: harness.Server, host: str, state: str) -> dict:
    """Wait until a board is in a state, and return it."""
    harness.wait_for(lambda: devices(api)[host]["admin_state"] == state, state)
    return devices(api)[host]


def start(cloud, rng) -> tuple[programs.Transfer, bytes, str]:
    """Begin to stream from the host without boards.

    :returns: what streams, what has to come out, and where it runs.
    """
    text = rng.randbytes(CHUNKS * CHUNK)
    aes = programs.Aes(rng)
    path = cloud.hosts["compute"].socket_path()
    running = programs.Transfer(path, text, "aes", params=aes.params)
    running.run_to(BEGUN_CHUNKS * CHUNK)
    view = cloud.wait_session(running.session_id, "ACTIVE")
    return running, aes.encrypt(text), view["slot_host_name"]


OTHER = {"alpha": "beta", "beta": "alpha"}


def stream_over_a_drain(running: programs.Transfer, api, host: str) -> dict:
    """Stream until a board is empty, with something left for the next one.

    The answer to a wish may come before the agent has heard of it: who lets
    go of all data then may be through before the board is drained.
    """
    for chunks in range(BEGUN_CHUNKS + 1, CHUNKS):
        running.run_to(chunks * CHUNK)
        if devices(api)[host]["admin_state"] == "disabled":
            break
    return wait_admin_state(api, host, "disabled")


def test_a_stream_moves_to_the_other_board_byte_for_byte(
    cloud, api, rng
) -> None:
    running, expected, host = start(cloud, rng)
    device = devices(api)[host]
    answer = change(
        api, device, state="draining", reason="firmware", drain_deadline_s=0
    )
    assert answer.status == 200
    shown = answer.document["device"]
    # It may be done already.
    assert shown["admin_state"] in ("draining", "disabled")
    assert shown["admin_reason"] == "firmware"
    drained = stream_over_a_drain(running, api, host)
    report = running.finish()
    assert running.output == expected
    assert (report.host, report.reopens) == (OTHER[host], 1)
    assert (drained["sessions"], drained["state"]) == (0, "disabled")
    assert drained["admin_reason"] == "firmware"
    assert drained["drain_deadline_at"] is None


def test_without_a_deadline_who_is_there_stays_to_the_end(
    cloud, api, rng
) -> None:
    running, expected, host = start(cloud, rng)
    device = devices(api)[host]
    later = change(api, device, state="draining", drain_deadline_s=3600)
    assert later.document["device"]["drain_deadline_at"]
    shown = change(api, device, state="draining").document["device"]
    assert (shown["admin_state"], shown["sessions"]) == ("draining", 1)
    assert shown["drain_deadline_at"] is None
    running.run_to(8 * CHUNK)
    # Who comes now gets the other one.
    session = api.open_until_ready()
    assert session["placement"]["host_name"] == OTHER[host]
    waiting = api.open().session
    assert waiting["state"] == "QUEUED"
    report = running.finish()
    assert (report.host, report.reopens) == (host, 0)
    assert running.output == expected
    wait_admin_state(api, host, "disabled")
    assert api.show(waiting["id"]).session["state"] == "QUEUED"
    change(api, devices(api)[host], state="enabled")
    ready = api.wait(waiting, "READY")
    assert ready["placement"]["host_name"] == host


def test_a_drain_goes_on_after_a_restart(cloud, api, rng) -> None:
    """The deadline is of the wall clock, and counts while nobody leads."""
    running, expected, host = start(cloud, rng)
    device = devices(api)[host]
    change(api, device, state="draining", drain_deadline_s=3, reason="r")
    cloud.conductor.kill()
    running.run_to(8 * CHUNK)
    cloud.conductor.start()
    cloud.wait_ready()
    cloud.wait_session(running.session_id, "ACTIVE", "QUEUED")
    drained = wait_admin_state(api, host, "disabled")
    assert drained["admin_reason"] == "r"
    report = running.finish()
    assert running.output == expected
    assert (report.host, report.reopens) == (OTHER[host], 1)
    # And once more: what is disabled stays so.
    cloud.conductor.kill()
    cloud.conductor.start()
    cloud.wait_ready()
    assert api.open_until_ready()["placement"]["host_name"] == OTHER[host]


def test_a_session_that_has_not_begun_keeps_its_place(cloud, api) -> None:
    first = api.open_until_ready()
    host = first["placement"]["host_name"]
    second = api.open_until_ready()
    third = api.open().session
    device = devices(api)[host]
    change(api, device, state="draining", drain_deadline_s=0)
    wait_admin_state(api, host, "disabled")
    shown = api.show(first["id"]).session
    assert (shown["state"], shown["queue_position"]) == ("QUEUED", 0)
    assert api.close(second["id"]) == 204
    moved = api.wait(shown, "READY")
    assert moved["placement"]["host_name"] == OTHER[host]
    assert moved["generation"] > first["generation"]
    assert api.show(third["id"]).session["state"] == "QUEUED"
    wire = harness.connect(moved)
    assert wire.run(b"x" * 1000) == b"x" * 1000
    wire.close_session()


def test_a_stateful_stream_ends_with_the_offset(cloud, api) -> None:
    path = cloud.hosts["compute"].socket_path()
    session = client.acc_open("sha", 1000, front_door=path, timeout_s=60)
    session.pin[:1000] = b"a" * 1000
    session.run(1000, timeout_s=60)
    view = cloud.wait_session(session.session_id, "ACTIVE")
    device = devices(api)[view["slot_host_name"]]
    change(api, device, state="draining", drain_deadline_s=0)
    ended = cloud.wait_session(session.session_id, "FAILED")
    assert ended["reason"] == "DRAINED"
    with pytest.raises(client.SessionFailed) as caught:
        session.run(1000, timeout_s=60)
    assert (caught.value.code, caught.value.offset_bytes) == ("DRAINED", 1000)
    session.close()


def test_a_stateful_file_is_sent_anew(cloud, api, rng, tmp_path) -> None:
    text = rng.randbytes(40 * CHUNK)
    (tmp_path / "in").write_bytes(text)
    names: queue.SimpleQueue[str] = queue.SimpleQueue()
    drained = threading.Event()

    def on_state(view: client.SessionView) -> None:
        names.put(view.session_id)

    def progress(_done_bytes: int, _size_bytes: int) -> None:
        # The first time it is in the middle of the file.
        assert drained.wait(clouds.waiting.LIMIT_S)

    running = programs.Background(
        lambda: client.run_file(
            "sha",
            tmp_path / "in",
            tmp_path / "out",
            front_door=cloud.hosts["compute"].socket_path(),
            progress=progress,
            on_state=on_state,
        )
    )
    session_id = names.get(timeout=clouds.waiting.LIMIT_S)
    host = cloud.wait_session(session_id, "ACTIVE")["slot_host_name"]
    device = devices(api)[host]
    change(api, device, state="draining", drain_deadline_s=0)
    assert cloud.wait_session(session_id, "FAILED")["reason"] == "DRAINED"
    drained.set()
    report = running.result()
    assert (report.restarts, report.host) == (1, OTHER[host])
    output = (tmp_path / "out").read_bytes()
    assert output == hashlib.sha256(text).digest()


def test_a_host_with_all_its_boards(cloud, api, rng) -> None:
    running, expected, host = start(cloud, rng)
    path = f"/v1/hosts/{cloud.hosts[host].uuid}"
    wish = {"state": "disabled", "reason": "new kernel"}
    shown = api.ask("PATCH", path, ADMIN, wish).document["host"]
    assert (shown["admin_state"], shown["sessions"]) == ("disabled", 1)
    assert devices(api)[host]["state"] == "disabled"
    assert devices(api)[host]["admin_state"] == "enabled"
    other = api.ask(
        "PATCH",
        f"/v1/hosts/{cloud.hosts[OTHER[host]].uuid}",
        ADMIN,
        {"state": "disabled"},
    )
    assert other.status == 200
    waiting = api.open().session
    (reason,) = api.show(waiting["id"]).session["pending_reasons"]
    assert reason["code"] == "NO_ENABLED_SLOT"
    wish = {"state": "draining", "drain_deadline_s": 0}
    assert api.ask("PATCH", path, ADMIN, wish).status == 200
    cloud.wait_session(running.session_id, "QUEUED")
    harness.wait_for(
        lambda: (
            api.ask("GET", path, ADMIN).document["host"]["admin_state"]
            == "disabled"
        ),
        "disabled",
    )
    assert api.ask("PATCH", path, ADMIN, {"state": "enabled"}).status == 200
    running.finish()
    assert running.output == expected


def test_the_snapshot_tells_of_hosts_and_slots(cloud, api, rng) -> None:
    running, _, host = start(cloud, rng)
    change(api, devices(api)[OTHER[host]], state="disabled")
    path = "/v1/pool/snapshot"

    def snapshot() -> dict:
        return api.ask("GET", path, ADMIN).document["snapshot"]

    harness.wait_for(
        lambda: (
            snapshot()["hosts"][cloud.hosts[OTHER[host]].uuid]["slots"]
            == {"total": 1, "usable": 0, "free": 0}
        ),
        "it is told that a board is disabled",
    )
    found = snapshot()
    hosts = {one["name"]: one for one in found["hosts"].values()}
    assert set(found["hosts"]) == {one.uuid for one in cloud.hosts.values()}
    assert hosts[host]["slots"] == {"total": 1, "usable": 1, "free": 0}
    assert hosts[host]["accelerators"]["aes"] == {"usable": 1, "free": 0}
    assert hosts["compute"]["slots"]["total"] == 0
    running.finish()
    assert api.ask("GET", path).status == 403


@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"state": "gone"},
        {"state": "enabled", "drain_deadline_s": 1},
        {"state": "disabled", "drain_deadline_s": 0},
        {"state": "draining", "drain_deadline_s": -1},
        {"state": "draining", "drain_deadline_s": 1e99},
        {"state": "draining", "drain_deadline_s": "1"},
        {"state": "draining", "drain_deadline_s": True},
        {"state": "disabled", "reason": "r" * 256},
        {"state": "disabled", "reason": None},
        {"state": "disabled", "who": "me"},
        b"null",
        b"{",
    ],
)
def test_bad_bodies_change_nothing(cloud, api, wish) -> None:
    before = devices(api)
    device = before["alpha"]
    host = cloud.hosts["alpha"].uuid
    for path in (f"/v1/devices/{device['id']}", f"/v1/hosts/{host}"):
        answer = api.ask("PATCH", path, ADMIN, wish)
        assert (answer.status, answer.code) == (400, "INVALID_REQUEST")
    assert devices(api) == before


def test_who_may_not_and_what_is_not_there(cloud, api) -> None:
    device = devices(api)["alpha"]
    answer = change(api, device, harness.TOKEN, state="disabled")
    assert (answer.status, answer.code) == (403, "FORBIDDEN")
    none = "00000000-0000-4000-8000-0000000000ff"
    for kind, code in (
        ("devices", "DEVICE_NOT_FOUND"),
        ("hosts", "HOST_NOT_FOUND"),
    ):
        for name in (none, "%00"):
            path = f"/v1/{kind}/{name}"
            answer = api.ask("PATCH", path, ADMIN, {"state": "enabled"})
            assert (answer.status, answer.code) == (404, code)
    assert devices(api)["alpha"] == device


def test_while_there_is_no_conductor(cloud, api) -> None:
    before = devices(api)
    cloud.conductor.kill()
    try:
        answer = change(api, before["alpha"], state="disabled")
        assert (answer.status, answer.code) == (503, "CONDUCTOR_UNAVAILABLE")
        assert int(answer.headers["retry-after"]) > 0
        harness.wait_for(
            lambda: api.ask("GET", "/v1/pool/snapshot", ADMIN).is_recorded,
            "what was remembered is too old",
        )
        assert devices(api) == before
    finally:
        cloud.conductor.start()
        cloud.wait_ready()
