# SPDX-License-Identifier: Apache-2.0

"""Instances of a real Nova: what they find, what they may do, their end."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from fpgapool import client
from fpgapool.client.doors import instance
from tests.harness import cloud as clouds
from tests.harness import waiting
from tests.integration.nova import harness
from tests.services import openstack

pytestmark = [
    pytest.mark.security,
]

SPECS = {"fpgapool:accelerators": "aes", "fpgapool:max_sessions": "1"}
DATA = bytes(range(256)) * 4000


def test_a_guest_with_no_configuration(
    api: harness.Api,
    pool: clouds.Cloud,
    compute: harness.Compute,
    accounts: openstack.Accounts,
    image_id: str,
    inside: harness.Enter,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
) -> None:
    server = compute.boot(compute.create_flavor(SPECS), image_id)
    assert server.status == "ACTIVE"
    found = inside(server).told()
    token = found["instance_token"]
    assert found == {
        "api_url": f"http://{api.address}",
        "instance_token": token,
        "accelerators": ["aes"],
    }
    waiting.wait_until(
        lambda: instance.FINDER.find()[0],
        "the library is told, too",
        harness.LIMIT_S,
    )
    # Its config drive is from before the key of tokens was replaced.
    monkeypatch.setenv(instance.CONFIG_DRIVE, str(tmp_path))
    drive = tmp_path / "openstack" / "latest" / "vendor_data2.json"
    drive.parent.mkdir(parents=True)
    outdated = {**found, "instance_token": f"{token[:-8]}AAAAAAAA"}
    drive.write_text(json.dumps({"fpgapool": outdated}))
    monkeypatch.setattr(instance, "FINDER", instance.Finder())
    output, _ = client.run_buffer("aes", DATA, params=harness.AES)
    assert bytes(output) == harness.encrypted(DATA)
    with client.acc_open("aes", 100, params=harness.AES):
        # It has one session, and may have no other one.
        with pytest.raises(client.RequestRejected) as caught:
            client.acc_open("copy", 1)
        assert caught.value.code == "INSTANCE_SESSION_LIMIT"
        assert api.ask("GET", "/v1/pool", token).status == 403

        def active() -> list[dict[str, Any]]:
            listed = api.ask("GET", "/v1/sessions", token).document["sessions"]
            return [one for one in listed if one["state"] == "ACTIVE"]

        # The database hears of it later than its client.
        (mine,) = waiting.wait_until(active, "it is listed", harness.LIMIT_S)
        _see_who_holds_the_slot(api, accounts, server)
        compute.connection.compute.delete_server(server.id)
        waiting.wait_until(
            lambda: (
                api.ask("GET", "/v1/sessions", token, check=False).status
                == 401
            ),
            "the token is worthless",
            harness.LIMIT_S,
        )
        record = pool.session_record(mine["request_id"], server.project_id)
        assert record.reason == "INSTANCE_DELETED"
    with pytest.raises(client.FpgapoolError) as refused:
        client.acc_open("copy", 1)
    assert refused.value.code == "UNAUTHORIZED"


def _see_who_holds_the_slot(
    api: harness.Api, accounts: openstack.Accounts, server: Any
) -> None:
    """As an operator who wants to know which instance of a project does."""
    admin = accounts.token(accounts.admin()).text
    query = f"all_projects=true&project_id={server.project_id}&state=ACTIVE"
    for path in (
        f"/v1/sessions?{query}",
        f"/v1/sessions?{query}&instance_id={server.id}",
    ):
        (found,) = api.ask("GET", path, admin).document["sessions"]
        assert (found["instance_id"], found["user_id"]) == (server.id, "")
    path = f"/v1/sessions?{query}&user_id={server.user_id}"
    assert api.ask("GET", path, admin).document["sessions"] == []


@pytest.mark.long
def test_who_does_not_ask_gets_nothing(
    compute: harness.Compute,
    image_id: str,
    inside: harness.Enter,
) -> None:
    server = compute.boot(compute.create_flavor(), image_id)
    assert inside(server).vendordata() == {}
    with pytest.raises(client.FrontDoorUnavailable) as caught:
        client.acc_open("copy", 1)
    assert "no token for this instance" in caught.value.message
