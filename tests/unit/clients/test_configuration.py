# SPDX-License-Identifier: Apache-2.0

"""Clients of Nova and Placement are made of what is configured."""

import uuid

import pytest

from fpgapool.clients import nova
from fpgapool.clients import placement
from fpgapool.common import exception
from tests.unit.clients import configuring

SOME = str(uuid.UUID(int=1))
each_client = pytest.mark.parametrize(
    ("group", "client"),
    [("nova", nova.Nova), ("placement", placement.Placement)],
)


@each_client
def test_nobody_is_asked_unless_that_is_configured(tmp_path, group, client):
    conf = configuring.configured(tmp_path, group)
    assert client.from_conf(conf) is None
    assert conf.placement.pool_name == "default"


@pytest.mark.parametrize(
    ("group", "error"),
    [
        ("nova", exception.NovaUnavailable),
        ("placement", exception.PlacementUnavailable),
    ],
)
def test_a_configuration_of_keystone_is_usable(tmp_path, group, error):
    conf = configuring.configured(
        tmp_path,
        group,
        auth_type="password",
        auth_url="http://127.0.0.1:9/v3",
        username="fpgapool",
        password="secret",
    )
    conf.set_override("request_timeout_s", 0.5, group="placement")
    # Nobody is there; it was not asked for before.
    if group == "nova":
        ask = nova.Nova.from_conf(conf, timeout_s=0.5).server
    else:
        ask = placement.Placement.from_conf(conf).provider
    with pytest.raises(error):
        ask(SOME)


@each_client
def test_a_wrong_configuration_is_told(tmp_path, group, client):
    conf = configuring.configured(tmp_path, group, auth_type="no-such-thing")
    with pytest.raises(exception.ConfigurationError, match=group):
        client.from_conf(conf)
