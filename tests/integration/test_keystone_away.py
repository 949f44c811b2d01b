# SPDX-License-Identifier: Apache-2.0

"""The API while the real Keystone is away."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping

import pytest

from fpgapool.vocabulary import codes
from tests.integration import server
from tests.services import keystone as keystone_service

pytestmark = pytest.mark.security

UNSEEN = "gAAAAABunseen"


@pytest.fixture
def away(
    api: server.Server,
    tokens: Mapping[str, str],
    keystone: keystone_service.Keystone,
) -> Iterator[keystone_service.Keystone]:
    """Give a Keystone that has stopped, which is back for the next test."""
    keystone.stop()
    yield keystone
    if not keystone.running:
        keystone.start()


def test_nobody_is_told_that_the_token_is_invalid(
    api: server.Server,
    tokens: Mapping[str, str],
    away: keystone_service.Keystone,
) -> None:
    for method, path in [("GET", "/v1/slots"), ("POST", "/v1/sessions")]:
        # One that the API has not seen, and so cannot remember.
        answer = api.ask(method, path, UNSEEN)
        assert answer.status == 503
        assert answer.code == codes.KEYSTONE_UNAVAILABLE
        assert int(answer.headers["retry-after"]) > 0
        assert "www-authenticate" not in answer.headers
    assert api.ask("GET", "/v1", tokens["member"]).status == 200
    away.start()
    assert api.ask("GET", "/v1/pool", tokens["member"]).status == 200
    assert api.ask("GET", "/v1/slots", UNSEEN).status == 401


@pytest.mark.parametrize(
    "token",
    ["", "nonsense", "../../v3/users", "gAAAA" + "A" * 4000, "a b", "ä"],
    ids=["none", "word", "path", "long", "blank", "letter"],
)
def test_what_is_no_token(api: server.Server, token: str) -> None:
    answer = api.ask("GET", "/v1/slots", token)
    assert answer.status == 401
    assert answer.code == codes.UNAUTHORIZED
    assert answer.headers["www-authenticate"].startswith("Keystone uri=")
