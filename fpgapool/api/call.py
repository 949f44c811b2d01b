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

"""What a handler gets and what it returns."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Mapping
from typing import Any

from fpgapool.api import errors
from fpgapool.api import metrics
from fpgapool.api import microversion
from fpgapool.api import policy
from fpgapool.api import trail as trails
from fpgapool.api import waiters
from fpgapool.common import context
from fpgapool.core import codes
from fpgapool.db import api as db_api
from fpgapool.rpcapi import conductor as conductor_rpcapi


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """See the options of the same names in ``[api]``."""

    max_body_bytes: int = 65536
    max_page_length: int = 1000
    max_wait_s: float = 30.0
    conductor_timeout_s: float = 10.0
    retry_after_s: int = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Backends:
    """All that handlers reach beyond the request."""

    conductor: conductor_rpcapi.ConductorAPI
    database: db_api.Database
    waiting: waiters.Waiters
    enforcer: policy.Enforcer
    limits: Limits
    metrics: metrics.Metrics = dataclasses.field(
        default_factory=metrics.Metrics
    )

    def close(self) -> None:
        """End the thread, and close connections to the database."""
        self.waiting.close()
        self.database.close()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Call:
    """A valid request of somebody who may make it.

    :ivar caller: who asks; of a request without a token, nobody.
    :ivar base_url: of the API, without a slash at the end.
    :ivar path: the variable parts of the path.
    :ivar query: of the types that its schema says.
    :ivar body: as its schema says; empty if there is none.
    :ivar trail: which rights it has taken.
    """

    backends: Backends
    caller: context.RequestContext
    version: microversion.Version
    base_url: str
    path: Mapping[str, str] = dataclasses.field(default_factory=dict)
    query: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    body: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    trail: trails.Trail = dataclasses.field(default_factory=trails.Trail)

    @property
    def project_id(self) -> str:
        """The project for which the caller acts."""
        project_id: str | None = self.caller.project_id
        if project_id is None:
            raise errors.ApiError(
                codes.FORBIDDEN, "the token is not for a project"
            )
        return project_id

    def may(self, rule: str, project_id: str | None = None) -> bool:
        """Whether the caller may do something.

        :param rule: a rule's name.
        :param project_id: to whose things; None for the caller's own.
        """
        owner = self.caller.project_id if project_id is None else project_id
        allowed = self.backends.enforcer.allows(
            self.caller, rule, {"project_id": owner}
        )
        if allowed:
            self.trail.note(self.caller, rule, owner)
        return allowed

    def require(self, rule: str, project_id: str | None = None) -> None:
        """Make sure that the caller may do something.

        :param rule: a rule's name.
        :param project_id: see :meth:`may`.
        :raises ApiError: if not.
        """
        if not self.may(rule, project_id):
            owner = project_id or self.caller.project_id
            self.trail.note(self.caller, rule, owner)
            raise errors.ApiError(
                codes.FORBIDDEN, f"the policy {rule} does not allow it"
            )

    def url(self, *parts: str, **query: Any) -> str:
        """Return the address of something in the API.

        :param parts: of the path after ``/v1``.
        :param query: after it.
        """
        quoted = (urllib.parse.quote(part, safe="") for part in parts)
        path = "/".join((self.base_url, "v1", *quoted))
        return (
            f"{path}?{urllib.parse.urlencode(query, True)}" if query else path
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """What the client gets.

    :ivar document: the body; None for an empty one.
    """

    document: Mapping[str, Any] | None
    status: int = 200
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


def self_link(href: str) -> list[dict[str, str]]:
    """Return the links of something that has one address."""
    return [{"rel": "self", "href": href}]
