# SPDX-License-Identifier: Apache-2.0

"""What is said of tokens while Keystone cannot be asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from keystoneauth1 import exceptions as auth_exceptions
from keystonemiddleware import auth_token
from keystonemiddleware.auth_token import _identity

from fpgapool.vocabulary import codes

TOKEN = {"X-Auth-Token": "gAAAAB"}
SERVICE_TOKEN = {"X-Service-Token": "gAAAAC"}


class Asked:
    """Stands for Keystone.

    :ivar error: what comes of asking it.
    """

    error: Exception

    def __call__(self, *_: object, **__: object) -> None:
        raise self.error


@pytest.fixture
def keystone(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Give what answers for Keystone."""
    asked = Asked()
    monkeypatch.setattr(_identity.IdentityServer, "verify_token", asked)
    # There is no service user, either.
    monkeypatch.setattr(
        _identity.IdentityServer, "invalidate", lambda _self: None
    )
    return asked


@pytest.fixture
def world(make_world, keystone: Asked) -> Iterator[object]:
    """Give an API with Keystone."""
    return make_world(auth_strategy="keystone")


@pytest.mark.parametrize(
    "error",
    [
        auth_exceptions.ConnectFailure(),
        auth_exceptions.ConnectTimeout(),
        auth_exceptions.DiscoveryFailure(),
        auth_exceptions.RequestTimeout(),
        auth_exceptions.EndpointNotFound(),
        auth_token.ServiceError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_nobody_can_check_a_token(world, keystone: Asked, error) -> None:
    keystone.error = error
    answer = world.client.simulate_get("/v1/slots", headers=TOKEN)
    assert answer.status_code == 503
    (told,) = answer.json["errors"]
    assert told["code"] == codes.KEYSTONE_UNAVAILABLE
    assert told["request_id"] == answer.headers["x-openstack-request-id"]
    assert int(answer.headers["retry-after"]) > 0
    # Nobody should throw the token away.
    assert "www-authenticate" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [TOKEN, SERVICE_TOKEN, TOKEN | SERVICE_TOKEN],
    ids=["of a user", "of a service", "both"],
)
def test_a_service_that_cannot_ask_keystone(make_world, headers) -> None:
    """It has no plug-in to log in with."""
    world = make_world(auth_strategy="keystone")
    assert world.conf.keystone_authtoken.auth_type is None
    answer = world.client.simulate_get("/v1/slots", headers=headers)
    assert answer.status_code == 503
    (told,) = answer.json["errors"]
    assert told["code"] == codes.KEYSTONE_UNAVAILABLE
    assert int(answer.headers["retry-after"]) > 0
    assert "www-authenticate" not in answer.headers


@pytest.mark.parametrize("headers", [TOKEN, SERVICE_TOKEN])
def test_a_token_is_invalid(world, keystone: Asked, headers) -> None:
    keystone.error = auth_token.InvalidToken()
    answer = world.client.simulate_get("/v1/slots", headers=headers)
    assert answer.status_code == 401
    assert answer.json["errors"][0]["code"] == codes.UNAUTHORIZED
    assert answer.headers["www-authenticate"].startswith("Keystone uri=")


def test_what_is_public_asks_nobody(world, keystone: Asked) -> None:
    keystone.error = auth_exceptions.ConnectFailure()
    assert world.client.simulate_get("/v1", headers=TOKEN).status_code == 200


def test_a_keystone_that_hangs_is_not_waited_for(world) -> None:
    options = world.conf.keystone_authtoken
    assert 0 < options.http_connect_timeout <= 30
    assert options.http_request_max_retries <= 3
