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

"""What the log says of each request, and of none but it."""

from __future__ import annotations

from typing import Any

import pytest
from keystonemiddleware import auth_token
from keystonemiddleware.auth_token import _identity
from oslo_context import context

from tests.unit.api import fakes

LOGGER = "fpgapool.api.access"
GLOBAL_ID = "req-12345678-1234-1234-1234-1234567890ab"


@pytest.mark.security
def test_no_request_has_the_context_of_the_one_before(
    make_world, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is logged while a token is checked names no other user."""
    seen: list[Any] = []

    def verify(*_: object, **__: object) -> None:
        seen.append(context.get_current())
        raise auth_token.InvalidToken

    monkeypatch.setattr(_identity.IdentityServer, "verify_token", verify)
    asked = make_world(auth_strategy="keystone")
    # In this thread, as the next one.
    assert make_world().ask("GET", "/v1/pool").status_code == 200
    answer = asked.client.simulate_get(
        "/v1/slots",
        headers={
            "X-Auth-Token": "gAAAAB",
            "X-Openstack-Request-Id": GLOBAL_ID,
        },
    )
    assert answer.status_code == 401
    (found,) = seen
    assert (found.user_id, found.project_id) == (None, None)
    assert found.request_id == answer.headers["x-openstack-request-id"]
    assert found.global_request_id == GLOBAL_ID
