# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-status`` with a real Keystone, Placement and Nova."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from fpgapool.cmd import status
from tests.harness import cases
from tests.harness import cloud as clouds
from tests.integration.nova import harness
from tests.services import keystone as keystone_service
from tests.services import openstack

SUCCESS, WARNING, FAILURE = range(3)
#: Of the pool's hosts, the one that Nova never had.
FOREIGN = "network1"
#: Names of checks.
CREDENTIALS, ENDPOINT = "Credentials", "Endpoint"
PLACEMENT, NOVA = "Hosts in Placement", "Nova"

Check = Callable[..., dict[str, tuple[int, str | None]]]


@pytest.fixture
def check(
    pool: clouds.Cloud,
    api: harness.Api,
    accounts: openstack.Accounts,
    keystone: keystone_service.Keystone,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> Check:
    """Give a function that checks with other options of groups."""
    accounts.register_endpoint(f"http://{api.address}")
    client = {
        "auth_type": "password",
        **keystone.auth_options("fpgapool", openstack.SERVICE_PROJECT),
        "region_name": openstack.REGION,
    }

    def run(**changed: dict[str, Any]) -> dict[str, tuple[int, str | None]]:
        groups: dict[str, dict[str, Any]] = {
            "DEFAULT": {
                "state_path": tmp_path,
                "transport_url": pool.transport_url,
            },
            "database": {"connection": pool.database_url.replace("%", "%%")},
            "keystone_authtoken": keystone.authtoken_options("fpgapool"),
            "placement": client,
            "nova": client,
        }
        for name, options in changed.items():
            groups[name] = {**groups[name], **options}
        path = tmp_path / "fpgapool.conf"
        openstack.write_config(path, groups)
        argv = ["--config-file", str(path), "upgrade", "check", "--json"]
        capsys.readouterr()
        status.main(argv)
        found = json.loads(capsys.readouterr().out)["checks"]
        return {one["check"]: (one["result"], one["details"]) for one in found}

    return run


def test_a_cloud_that_is_as_it_should_be(
    check: Check, pool: clouds.Cloud
) -> None:
    """But for a host that is in no cloud."""
    found = check()
    for name in (CREDENTIALS, ENDPOINT, NOVA, "Authentication"):
        assert found[name] == (SUCCESS, None)
    result, details = found[PLACEMENT]
    assert result == WARNING
    foreign = pool.hosts[FOREIGN].uuid
    assert f"of 1 hosts: {FOREIGN} ({foreign})." in str(details)
    assert "compute_id" in str(details)


@pytest.mark.parametrize(
    ("group", "checks"),
    cases.first(
        ("nova", {CREDENTIALS, NOVA}),
        ("keystone_authtoken", {CREDENTIALS}),
        ("placement", {CREDENTIALS, PLACEMENT}),
    ),
)
def test_a_wrong_password(check: Check, group: str, checks: set[str]) -> None:
    found = check(**{group: {"password": "wrong"}})
    for name in checks:
        result, details = found[name]
        assert result
        assert f"[{group}]" in str(details)
        assert "wrong" not in str(details)
    # Nothing else is blamed for it.
    assert found[ENDPOINT] == (SUCCESS, None)


def test_a_user_without_rights(
    check: Check, personas: openstack.Personas
) -> None:
    reader = {
        "username": personas.reader.name,
        "password": personas.reader.password,
        "project_name": personas.reader.project.name,
    }
    found = check(nova=reader, placement=reader)
    assert found[CREDENTIALS] == (SUCCESS, None)
    result, details = found[NOVA]
    assert result == FAILURE
    assert "403" in str(details)
    assert "[nova]: its user needs the role admin" in str(details)
    result, details = found[PLACEMENT]
    assert result == WARNING
    assert "403" in str(details)
    assert "[placement]" in str(details)


def test_an_endpoint_that_is_elsewhere(check: Check) -> None:
    found = check(keystone_authtoken={"region_name": "RegionTwo"})
    result, details = found[ENDPOINT]
    assert result == WARNING
    assert "in the region RegionTwo: create it" in str(details)


def test_a_keystone_that_is_away(check: Check) -> None:
    away = {"auth_url": "http://127.0.0.1:1/v3"}
    found = check(keystone_authtoken=away)
    result, details = found[CREDENTIALS]
    assert result == FAILURE
    assert "[keystone_authtoken]: " in str(details)
    assert found[ENDPOINT] == (SUCCESS, None)
