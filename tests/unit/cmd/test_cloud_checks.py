# SPDX-License-Identifier: Apache-2.0

"""What fpgapool-status says of other services; see also tests/integration."""

from __future__ import annotations

from typing import Any

import pytest
from keystoneauth1 import access
from oslo_config import cfg

from fpgapool import conf as fpgapool_conf
from fpgapool.clients import nova
from fpgapool.clients import placement
from fpgapool.cmd import cloud_checks
from fpgapool.common import exception
from tests.harness import placement as fake

HOSTS = {f"uuid-{number}": f"host{number}" for number in range(7)}


@pytest.fixture
def conf() -> cfg.ConfigOpts:
    """Give a configuration that configures no other service."""
    made = cfg.ConfigOpts()
    fpgapool_conf.register_opts(made)
    made([], default_config_files=[], default_config_dirs=[])
    return made


def test_what_is_not_configured_is_not_checked(conf: cfg.ConfigOpts) -> None:
    assert cloud_checks.credentials(conf) is None
    assert cloud_checks.endpoint(conf) is None
    assert cloud_checks.hosts(conf, HOSTS) is None
    assert cloud_checks.computes(conf) is None


def test_credentials_of_used_groups_are_checked(conf: cfg.ConfigOpts) -> None:
    def wrong() -> str:
        for group in ("glance", "oslo_limit"):
            options = cloud_checks.options(conf, group)
            assert options.auth_type is None
            conf.set_override("auth_type", "password", group=group)
        return str(cloud_checks.credentials(conf))

    # Their options are wrong, but nobody uses them.
    assert wrong() == "None"
    conf.set_override("store", "glance", group="bitstreams")
    conf.set_override("driver", "unified", group="quota")
    found = str(cloud_checks.credentials(conf))
    assert "[glance]: " in found
    assert "[oslo_limit]: " in found
    assert "Check auth_url" in found


def _access(*regions: str) -> access.AccessInfo:
    endpoints = [
        {
            "id": region,
            "interface": "public",
            "region": region,
            "region_id": region,
            "url": "http://api.example.org",
        }
        for region in regions
    ]
    service = {
        "id": "s",
        "type": "fpgapool",
        "name": "fpgapool",
        "endpoints": endpoints,
    }
    body = {"token": {"catalog": [service] if regions else []}}
    return access.AccessInfoV3(body=body, auth_token="t")


@pytest.mark.parametrize(
    ("regions", "wanted", "said"),
    [
        ((), None, "of the type fpgapool: create it"),
        ((), "RegionOne", "of the type fpgapool: create it"),
        (("RegionOne",), None, None),
        (("RegionOne", "RegionTwo"), "RegionTwo", None),
        (("RegionOne",), "RegionTwo", "in the region RegionTwo: create it"),
    ],
)
def test_an_endpoint_is_found_in_its_region(
    conf: cfg.ConfigOpts,
    monkeypatch: pytest.MonkeyPatch,
    regions: tuple[str, ...],
    wanted: str | None,
    said: str | None,
) -> None:
    cloud_checks.options(conf, cloud_checks.API)
    conf.set_override("region_name", wanted, group=cloud_checks.API)
    monkeypatch.setattr(
        cloud_checks, "_access", lambda _conf, _group: _access(*regions)
    )
    found = cloud_checks.endpoint(conf)
    assert found is None if said is None else said in str(found)


def test_few_of_many_hosts_are_named(
    conf: cfg.ConfigOpts, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = fake.Adapter()
    monkeypatch.setattr(
        placement.Placement,
        "from_conf",
        lambda _conf: placement.Placement(cloud),
    )
    found = str(cloud_checks.hosts(conf, HOSTS))
    assert "providers of 7 hosts: host0 (uuid-0), host1" in found
    assert "host4 (uuid-4) and 2 more." in found
    assert "host5" not in found


def test_services_that_are_away(
    conf: cfg.ConfigOpts, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Away:
        def provider(self, _uuid: str) -> Any:
            raise exception.PlacementUnavailable(reason="timeout")

        def computes(self) -> Any:
            raise exception.NovaUnavailable(reason="timeout")

    for service in (placement.Placement, nova.Nova):
        monkeypatch.setattr(service, "from_conf", lambda *_, **__: Away())
    for found in (
        cloud_checks.hosts(conf, HOSTS),
        cloud_checks.computes(conf),
    ):
        assert "timeout" in str(found)
        assert "Check [" in str(found)
