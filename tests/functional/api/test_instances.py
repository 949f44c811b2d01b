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

"""Instances: from the metadata to the data, and to their ends."""

from __future__ import annotations

import concurrent.futures
import os
import signal
from collections.abc import Callable
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives import ciphers
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.ciphers import modes

from fpgapool import client
from fpgapool.client import apidoor
from fpgapool.client import frontdoor
from fpgapool.client import instance
from tests.functional.api import harness
from tests.functional.api import nova_stub
from tests.harness import cloud as clouds

# In the gate: tests/integration/nova/test_instances.py,
# tests/unit/api/test_instances.py and tests/unit/api/test_vendordata.py.
pytestmark = pytest.mark.long

SPECS = {"fpgapool:accelerators": "aes,copy", "fpgapool:max_sessions": "2"}
NOVA = "nova:services:service"
KEY = bytes(range(32))
IV = bytes(16)
DATA = bytes(range(256)) * 3000


@pytest.fixture(scope="module")
def nova() -> Iterator[nova_stub.NovaStub]:
    """Give a Nova of which the pool asks."""
    with nova_stub.NovaStub() as stub:
        yield stub


@pytest.fixture(scope="module")
def cloud(
    make_cloud: Callable[..., clouds.Cloud], nova: nova_stub.NovaStub
) -> clouds.Cloud:
    """Give a pool that looks after instances."""
    made = make_cloud(
        clouds.HostPlan("board", slots=4),
        options={
            "nova": {
                "auth_type": "none",
                "endpoint_override": nova.url,
                "poll_interval_s": 0.2,
                "compute_interval_s": 0.2,
                "request_timeout_s": 2,
                "page_length": 2,
                "instances_are_local": True,
            },
            "vendordata": {
                "token_keys": "functional-tests-" * 3,
                "lookup_timeout_s": 4,
                "requests_per_s": 1000,
                "burst": 1000,
            },
        },
    )
    for name, host in made.hosts.items():
        nova.add_node(f"{name}.example.org", host.uuid)
    return made


@pytest.fixture
def stub(
    nova: nova_stub.NovaStub, api: harness.Server
) -> Iterator[nova_stub.NovaStub]:
    """Give Nova, which asks the API for vendordata."""
    nova.vendordata = lambda body: ask_vendordata(api, body)
    yield nova
    nova.away = False


def ask_vendordata(api: harness.Server, body: dict) -> dict:
    answer = api.ask("POST", "/v1/vendordata", NOVA, body)
    assert answer.status == 200
    return answer.document


def boot(
    stub: nova_stub.NovaStub, specs: dict[str, str] = SPECS, **members: str
) -> str:
    values = {"project_id": clouds.PROJECT, "node": "board.example.org"}
    return stub.boot(specs, **{**values, **members})


def token_of(stub: nova_stub.NovaStub, server_id: str) -> str:
    stub.guest = server_id
    _, document = stub.answer(nova_stub.urllib.parse.urlsplit(nova_stub.FILE))
    return document["fpgapool"].get("instance_token", "")


@pytest.fixture
def inside(
    stub: nova_stub.NovaStub, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """Give a function that puts this process inside a server."""
    for name in ("FPGAPOOL_SOCKET", "OS_CLOUD", "OS_AUTH_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(frontdoor, "candidate_paths", lambda: ["/nowhere"])
    monkeypatch.setattr(instance, "_MOUNT_POINTS", ())
    monkeypatch.setenv(instance.METADATA_URL, stub.url)

    def enter(server_id: str) -> None:
        stub.guest = server_id
        instance.FINDER.forget()

    return enter


def encrypted(data: bytes) -> bytes:
    cipher = ciphers.Cipher(algorithms.AES(KEY), modes.CTR(IV))
    return cipher.encryptor().update(data)


def test_from_boot_to_deletion(
    api: harness.Server,
    cloud: clouds.Cloud,
    stub: nova_stub.NovaStub,
    inside: Callable[[str], None],
) -> None:
    server_id = boot(stub)
    inside(server_id)
    params = {"key": KEY, "iv": IV}
    output, _ = client.run_buffer("aes", DATA, params=params)
    assert bytes(output) == encrypted(DATA)
    # One that is open when the instance is deleted ends with it.
    with client.acc_open("copy", 1000, request_id="last") as session:
        session.pin[:4] = b"abcd"
        assert bytes(client.acc_run(session, 4)) == b"abcd"
        record = cloud.session_record("last", clouds.PROJECT)
        assert record.user_id == f"instance:{server_id}"
        token = token_of(stub, server_id)
        assert api.ask("GET", "/v1/sessions", token).status == 200
        stub.delete(server_id)
        ended = harness.wait_for(
            lambda: (
                (
                    found := cloud.session_record("last", clouds.PROJECT)
                ).finished_at
                and found
            ),
            "the session's end",
        )
        assert (ended.state, ended.reason) == ("CANCELLED", "INSTANCE_DELETED")
        with pytest.raises(client.FpgapoolError):
            _use_until_it_ends(session)
    assert api.ask("GET", "/v1/sessions", token, check=False).status == 401
    # Even if Nova asks once more for it.
    assert ask_vendordata(api, {"instance-id": server_id}) == {}
    with pytest.raises(client.RequestRejected, match="UNAUTHORIZED"):
        client.acc_open("copy", 1)


def _use_until_it_ends(session: client.Session) -> None:
    while True:
        client.acc_run(session, 4, timeout_s=30)


def test_the_host_of_the_next_session(
    api: harness.Server, cloud: clouds.Cloud, stub: nova_stub.NovaStub
) -> None:
    server_id = boot(stub, node="elsewhere.example.org")
    token = token_of(stub, server_id)
    board = cloud.hosts["board"].uuid

    def opened_from() -> str | None:
        session = api.open(token).session
        assert api.close(session["id"], token) == 204
        return session["host"]

    assert opened_from() is None
    stub.change(
        server_id,
        **{"OS-EXT-SRV-ATTR:hypervisor_hostname": "board.example.org"},
    )
    harness.wait_for(lambda: opened_from() == board, "the new host")
    stub.change(
        server_id,
        status="SHELVED_OFFLOADED",
        **{"OS-EXT-SRV-ATTR:hypervisor_hostname": None},
    )
    harness.wait_for(lambda: opened_from() is None, "no host")


def test_the_limit_of_the_flavor_holds_in_a_race(
    api: harness.Server, stub: nova_stub.NovaStub
) -> None:
    server_id = boot(stub)
    token = token_of(stub, server_id)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: api.open(token), range(8)))
    refused = [one for one in answers if one.status != 202]
    assert len(refused) == 6
    assert {(one.status, one.code) for one in refused} == {
        (429, "INSTANCE_SESSION_LIMIT")
    }
    assert all("retry-after" in one.headers for one in refused)
    # A resize to another flavor counts from the next one on.
    flavor = {"extra_specs": {**SPECS, "fpgapool:max_sessions": "3"}}
    stub.change(server_id, flavor=flavor)
    harness.wait_for(lambda: api.open(token).status == 202, "the new limit")
    assert api.open(token).code == "INSTANCE_SESSION_LIMIT"


def test_a_place_that_was_just_given_back_is_free(
    api: harness.Server,
    cloud: clouds.Cloud,
    stub: nova_stub.NovaStub,
    inside: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pool hears of the end from a host that has much to do."""
    monkeypatch.setattr(apidoor, "_END_LAG_S", harness.TIMEOUT_S)
    inside(boot(stub, {**SPECS, "fpgapool:max_sessions": "1"}))
    agent = cloud.hosts["board"].agent.pid
    session = client.acc_open("copy", 1)
    with concurrent.futures.ThreadPoolExecutor(1) as program:
        os.kill(agent, signal.SIGSTOP)
        try:
            session.close()
            opened = program.submit(
                client.acc_open, "copy", 1, request_id="next"
            )
            cloud.conductor.wait_for_log(
                "Request next of project"
                f" {clouds.PROJECT} refused: INSTANCE_SESSION_LIMIT"
            )
        finally:
            os.kill(agent, signal.SIGCONT)
        opened.result(harness.TIMEOUT_S).close()


@pytest.mark.security
def test_instances_do_not_see_each_other(
    api: harness.Server, stub: nova_stub.NovaStub
) -> None:
    tokens = [token_of(stub, boot(stub)) for _ in range(2)]
    assert tokens[0] != tokens[1]
    session = api.open(tokens[0], request_id="mine").session
    stolen = api.open(tokens[1], request_id="mine")
    assert (stolen.status, stolen.code) == (409, "REQUEST_ID_REUSED")
    assert api.show(session["id"], tokens[1]).status == 404
    assert api.close(session["id"], tokens[1]) == 404
    listed = api.ask("GET", "/v1/sessions", tokens[1]).document["sessions"]
    assert listed == []
    # To its project, it is a session like others.
    assert api.show(session["id"]).status == 200
    assert api.show(session["id"], harness.OTHER_TOKEN).status == 404


@pytest.mark.security
def test_a_token_is_taken_away_for_good(
    api: harness.Server, cloud: clouds.Cloud, stub: nova_stub.NovaStub
) -> None:
    server_id = boot(stub)
    token = token_of(stub, server_id)
    assert token_of(stub, server_id) == token
    shown = api.ask("GET", "/v1/instances").document["instances"]
    assert server_id in [one["id"] for one in shown]
    path = f"/v1/instances/{server_id}/token"
    assert api.ask("DELETE", path, harness.OTHER_TOKEN).status == 404
    assert api.ask("GET", "/v1/sessions", token).status == 200
    assert api.ask("DELETE", path).status == 204
    assert api.ask("GET", "/v1/sessions", token, check=False).status == 401
    assert token_of(stub, server_id) == ""
    cloud.conductor.kill()
    cloud.conductor.start()
    cloud.wait_ready()
    assert token_of(stub, server_id) == ""
    assert api.ask("GET", "/v1/sessions", token, check=False).status == 401


def test_what_was_deleted_while_nova_was_away_is_found_later(
    api: harness.Server, cloud: clouds.Cloud, stub: nova_stub.NovaStub
) -> None:
    server_id, late_id = boot(stub), boot(stub)
    token = token_of(stub, server_id)
    session = api.open(token).session
    stub.away = True
    harness.wait_for(
        lambda: "What becomes of instances is not seen" in _log(cloud),
        "the warning",
    )
    # A boot goes on meanwhile, without a token.
    assert ask_vendordata(api, {"instance-id": late_id}) == {}
    stub.delete(server_id)
    assert api.show(session["id"], token).status == 200
    # Nor does a change of leader lose what it did not see.
    cloud.conductor.kill()
    stub.away = False
    cloud.conductor.start()
    cloud.wait_ready()
    harness.wait_for(
        lambda: (
            api.show(session["id"]).session["reason"] == "INSTANCE_DELETED"
        ),
        "the session's end",
    )
    assert api.ask("GET", "/v1/sessions", token, check=False).status == 401
    assert token_of(stub, late_id)


def _log(cloud: clouds.Cloud) -> str:
    return cloud.conductor.log()


def test_a_frozen_nova_does_not_hold_up_a_boot(
    api: harness.Server, stub: nova_stub.NovaStub
) -> None:
    server_id = boot(stub)
    with stub._lock:
        # It is answered while Nova does not answer.
        assert ask_vendordata(api, {"instance-id": server_id}) == {}
    harness.wait_for(lambda: token_of(stub, server_id), "a token")
