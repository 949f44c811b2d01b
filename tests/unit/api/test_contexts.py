# SPDX-License-Identifier: Apache-2.0

"""The contexts of callers, which are made once for many requests."""

from __future__ import annotations

from typing import Any

import pytest
from oslo_context import context as oslo_context
from oslo_middleware import request_id

from fpgapool.api.http import middleware
from fpgapool.common.messaging import context

#: As the middleware before sets them, in oslo.context's documentation.
HEADERS = (
    *("USER_ID", "USER", "PROJECT_ID", "TENANT_ID", "TENANT"),
    *("DOMAIN_ID", "DOMAIN_NAME", "USER_DOMAIN_ID", "USER_NAME"),
    *("PROJECT_DOMAIN_ID", "PROJECT_NAME", "TENANT_NAME"),
    *("USER_DOMAIN_NAME", "PROJECT_DOMAIN_NAME"),
    *("SERVICE_USER_ID", "SERVICE_USER_NAME", "SERVICE_PROJECT_ID"),
    *("SERVICE_USER_DOMAIN_ID", "SERVICE_USER_DOMAIN_NAME"),
    *("SERVICE_PROJECT_NAME", "SERVICE_PROJECT_DOMAIN_ID"),
    *("SERVICE_PROJECT_DOMAIN_NAME", "SERVICE_ROLES"),
    *("ROLE", "ROLES", "IS_ADMIN_PROJECT"),
)
NAMES = (
    *(f"HTTP_X_{name}" for name in HEADERS),
    "HTTP_OPENSTACK_SYSTEM_SCOPE",
)
OWN = "an id"


@pytest.fixture
def made():
    """What makes the context of a request with some headers."""
    found: list[Any] = []

    def app(environ: dict[str, Any], _: object) -> list[bytes]:
        found.append(environ[middleware.CONTEXT])
        return []

    entry = middleware.Context(app)

    def make(**headers: str) -> context.RequestContext:
        environ = {
            "REQUEST_METHOD": "GET",
            "HTTP_X_IDENTITY_STATUS": "Confirmed",
            request_id.ENV_REQUEST_ID: OWN,
            **headers,
        }
        entry(environ, lambda *_: None)
        return found.pop()

    return make


@pytest.mark.security
@pytest.mark.parametrize("name", NAMES)
def test_each_header_counts(made, name: str) -> None:
    """A caller who differs in one of them has no other's context."""
    for headers in ({name: "one"}, {name: "two"}, {}, {name: "one"}):
        found = made(**headers)
        expected = context.RequestContext.from_environ(
            headers, request_id=OWN
        ).of_request(OWN, None)
        assert found.seen_by_policies == expected.seen_by_policies
        assert vars(found) == vars(expected)


@pytest.mark.security
def test_policies_see_all_that_oslo_shows_them(made) -> None:
    """Decisions are remembered by it."""
    found = made(HTTP_X_USER_ID="eve", HTTP_X_ROLES="member,reader")
    values = found.to_policy_values()
    assert found.seen_by_policies == repr(list(values.items()))
    assert (
        found.seen_by_policies != made(HTTP_X_USER_ID="eve").seen_by_policies
    )


def test_requests_of_a_caller_have_their_own_ids(made) -> None:
    """One context does not get the ids of the next."""
    first = made(HTTP_X_USER_ID="eve")
    second = made(
        HTTP_X_USER_ID="eve",
        **{request_id.ENV_REQUEST_ID: "second", request_id.GLOBAL_REQ_ID: "g"},
    )
    assert oslo_context.get_current() is second
    ids = [(one.request_id, one.global_request_id) for one in (first, second)]
    assert ids == [(OWN, None), ("second", "g")]
    assert first.user_id == second.user_id == "eve"


@pytest.mark.security
def test_no_context_holds_a_token(made) -> None:
    """Nothing acts in the caller's name."""
    found = made(HTTP_X_AUTH_TOKEN="secret", HTTP_X_SERVICE_TOKEN="secret")
    assert "secret" not in repr(vars(found))


def test_few_contexts_are_kept(made, monkeypatch) -> None:
    """However many callers there are."""
    monkeypatch.setattr(middleware, "_MOST_CALLERS", 2)
    for name in "abcabc":
        assert made(HTTP_X_USER_ID=name).user_id == name
