# SPDX-License-Identifier: Apache-2.0

"""The input and output of handlers."""

from __future__ import annotations

import dataclasses
import operator
import time
import urllib.parse
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Protocol
from typing import Self
from typing import TypeVar

from oslo_config import cfg

from fpgapool.api import metrics
from fpgapool.api.answers import places
from fpgapool.api.backends import caches
from fpgapool.api.backends import gathering
from fpgapool.api.backends import inventory
from fpgapool.api.backends import leader as leaders
from fpgapool.api.backends import recent
from fpgapool.api.backends import vendordata as vendordatas
from fpgapool.api.backends import waiters
from fpgapool.api.http import audit_trail
from fpgapool.api.http import crowd
from fpgapool.api.http import errors
from fpgapool.api.http import microversion
from fpgapool.api.http import rights
from fpgapool.api.ui import memory as memories
from fpgapool.bitstreams import base as stores
from fpgapool.bitstreams import intake
from fpgapool.bitstreams import library as libraries
from fpgapool.bitstreams import signatures
from fpgapool.bitstreams import stores as upkeep
from fpgapool.common.messaging import context
from fpgapool.db import api as db_api
from fpgapool.db import inventory as inventories
from fpgapool.objects import bounds
from fpgapool.rpcapi import conductor as conductor_rpcapi
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import names
from fpgapool.vocabulary import states

_T = TypeVar("_T")


def has_ended(row: db_api.SessionHead | None) -> bool:
    """Whether a session has ended and cannot be reopened.

    Even then, a late report may show that a cancelled session was served.
    """
    return (
        row is not None
        and row.state in states.TERMINAL
        and row.reason not in codes.REOPENABLE
    )


class Enforcer(Protocol):
    """Enforces policies; see :class:`fpgapool.api.policy.Enforcer`."""

    def allows(
        self,
        caller: context.RequestContext,
        rule: str,
        target: Mapping[str, str | None],
    ) -> bool:
        """Whether a policy allows a caller's action."""

    def is_privileged(self, caller: context.RequestContext, rule: str) -> bool:
        """Whether a policy gives a caller more rights than tenants have."""

    def roles(self, rule: str) -> set[str]:
        """Return the roles of which a policy requires one."""


def forbidden(
    enforcer: Enforcer, caller: context.RequestContext, rule: str
) -> errors.ApiError:
    """Return the error for a caller whom a policy does not allow something."""
    detail = f"the policy {rule} does not allow this request"
    needed = enforcer.roles(rule)
    if caller.project_id is None:
        detail += "; the token is not for a project"
    elif needed and needed.isdisjoint(caller.roles):
        has = ", ".join(sorted(caller.roles)) or "none"
        detail += (
            f"; it needs one of the roles {', '.join(sorted(needed))}; the"
            f" token has: {has}"
        )
    return errors.ApiError(codes.FORBIDDEN, detail)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """The options of the same names in ``[api]``."""

    max_body_bytes: int
    max_page_length: int
    max_wait_s: float
    conductor_timeout_s: float
    retry_after_s: int
    max_project_requests: int
    inventory_cache_s: float

    @classmethod
    def of(cls, options: cfg.ConfigOpts.GroupAttr, **others: Any) -> Self:
        """Return the configured limits; ``others`` replace some of them."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: options[name] for name in names} | others)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Files:
    """The store of bitstreams, and limits of uploads.

    :ivar uploads: the uploads that are in progress.
    """

    store: stores.Store
    trusted_keys: signatures.TrustedKeys
    sweeper: upkeep.Sweeper
    signature_required: bool = True
    max_size_bytes: int = 256 * 2**20
    upload_timeout_s: float = 1800.0
    uploads: crowd.Crowd = dataclasses.field(
        default_factory=lambda: crowd.Crowd(
            "uploads", codes.TOO_MANY_UPLOADS, 2, 4
        )
    )


@dataclasses.dataclass(kw_only=True)
class Backends:
    """Everything that handlers use besides the request.

    :ivar conductor: client of the conductor for requests that make changes.
    :ivar reader: client of the conductor for queries, with a shorter timeout.
    :ivar leader: sends queries to the conductor while one leads.
    :ivar default_limits: default limits of projects, by resource; None if
        they are in Keystone.
    :ivar files: the store of bitstreams; None if the pool has none.
    :ivar vendordata: the part that answers Nova; None if there is none.
    :ivar memory: what the live page knows of the last hours.
    :ivar builtins: accelerators that slots run without a file, by shape.
    :ivar snapshot: the snapshot for Nova, and whether it is from the database.
    :ivar sessions: heads of sessions, by ID; None for an ID without a row.
    :ivar opens: requests sessions; simultaneous requests are one call.
    :ivar ends: ends sessions, in the same way.
    """

    conductor: conductor_rpcapi.ConductorAPI
    reader: conductor_rpcapi.ConductorAPI
    database: db_api.Database
    waiting: waiters.Waiters
    enforcer: Enforcer
    limits: Limits
    files: Files | None = None
    metrics: metrics.Metrics = dataclasses.field(
        default_factory=metrics.Metrics
    )
    vendordata: vendordatas.Vendordata | None = None
    clock: Callable[[], float] = time.monotonic
    lists: caches.Texts = dataclasses.field(default_factory=caches.Texts)
    default_limits: Mapping[str, int] | None = None
    memory: memories.Memory = dataclasses.field(
        default_factory=memories.Memory
    )

    def __post_init__(self) -> None:
        self.crowd = crowd.Crowd(
            "concurrent requests",
            codes.RATE_LIMITED,
            self.limits.max_project_requests,
        )
        self.leader = leaders.Leader(self.reader, self.database)
        limit_s = self.limits.conductor_timeout_s
        self.opens, self.ends = (
            gathering.Gathered(self.conductor.submit_sessions, limit_s),
            gathering.Gathered(self.conductor.end_sessions, limit_s),
        )
        max_age_s, clock = self.limits.inventory_cache_s, self.clock

        def cached(load: Callable[[], _T]) -> caches.Remembered[_T]:
            return caches.Remembered(load, max_age_s, clock)

        self.inventory = cached(
            lambda: inventories.Inventory.load(self.database)
        )
        self.builtins = cached(self._builtins)
        self.library = cached(self.load_library)
        self.recent_slot_s = caches.Remembered(
            lambda: recent.slot_s(self.database, None),
            recent.MAX_AGE_S,
            clock,
        )
        self.snapshot = cached(self._snapshot)
        self.sessions = caches.Ended(
            lambda session_id: self.database.session_head(session_id),
            has_ended,
            max_age_s,
            clock,
        )

    def pool_counts(self) -> tuple[dict[str, Any], bool]:
        """Return the pool in numbers, and whether they are from the database.

        See :meth:`fpgapool.rpcapi.conductor.ConductorAPI.pool_counts`.
        """
        counts, answers = self.leader.ask(lambda leader: leader.pool_counts())
        if counts is None:
            counts = inventory.counts(self.database, self.inventory.get())
        return counts, not answers

    def hosts_now(self, host_uuids: Sequence[str]) -> dict[str, Any]:
        """Return what only the leader knows about hosts, by UUID.

        See :meth:`fpgapool.rpcapi.conductor.ConductorAPI.hosts_now`; if the
        leader does not answer, hosts are missing.
        """
        found: dict[str, Any] = {}
        for start in range(0, len(host_uuids), bounds.MAX_HOSTS):
            some = host_uuids[start : start + bounds.MAX_HOSTS]
            now, _ = self.leader.ask(operator.methodcaller("hosts_now", some))
            found |= now or {}
        return found

    def load_library(self) -> libraries.Library:
        """Return the library from the database.

        If a leader answers, the accelerators' shapes include those of slots
        that can run them without a file.
        """
        return libraries.Library.load(self.database, self.builtins.get())

    def _builtins(self) -> dict[str, libraries.Builtins | None]:
        counts, _ = self.pool_counts()
        return {
            shape: libraries.read_builtins(builtins)
            for shape, builtins in counts["builtins"].items()
        }

    def _snapshot(self) -> tuple[dict[str, Any], bool]:
        counts, is_recorded = self.pool_counts()
        pool = self.inventory.get()
        shapes = {
            profile.name: profile.shapes
            for profile in self.library.get().profiles.values()
            # Flavors cannot name the accelerators of projects.
            if names.owner_of(profile.name) is None
        }
        hosts_now = (
            inventory.hosts_now(self.database, pool)
            if is_recorded
            else self.hosts_now([host.uuid for host in pool.hosts])
        )
        found = inventory.snapshot(
            pool, shapes, counts["queued"], hosts_now, time.time()
        )
        return found, is_recorded

    def close(self) -> None:
        """Stop the waiting requests, and disconnect from the database."""
        self.waiting.close()
        self.database.close()


@dataclasses.dataclass(slots=True, kw_only=True)
class Call:
    """A valid request of an authorized caller.

    It is completed step by step, because copying it would take a tenth of the
    time of a read. Handlers do not change the request's data.

    :ivar caller: the caller; an empty context if the request has no token.
    :ivar base_url: the API's URL, without a slash at the end.
    :ivar body: the body, which its schema allows; empty if there is none.
    :ivar etags: ETags of the responses that the client has cached.
    :ivar recorded: whether the response comes from the database alone, because
        no conductor answered.
    :ivar stream: the body of an upload; None if its end cannot be determined.
    :ivar length_bytes: length of the upload; None if the request does not
        state it.
    """

    backends: Backends
    caller: context.RequestContext
    version: microversion.Version
    base_url: str
    policy: str = ""
    path: Mapping[str, str] = dataclasses.field(default_factory=dict)
    query: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    body: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    etags: Sequence[str] = ()
    audit: audit_trail.AuditTrail = dataclasses.field(
        default_factory=audit_trail.AuditTrail
    )
    recorded: bool = False
    stream: intake.Stream | None = None
    length_bytes: int | None = None
    _places: places.Places | None = None

    @property
    def places(self) -> places.Places:
        """How the caller sees hosts."""
        if self._places is None:
            # Looking at a session is no use of a privilege: it is not audited.
            named = self.allows(rights.HOSTS_IDENTIFY)
            mine = self.caller.project_id or ""
            self._places = places.Places(None if named else mine)
        return self._places

    def allows(self, rule: str) -> bool:
        """Whether a policy allows what the caller sees; it is not audited."""
        return self.backends.enforcer.allows(
            self.caller, rule, {"project_id": self.caller.project_id}
        )

    @property
    def project_id(self) -> str:
        """The project for which the caller acts.

        :raises ApiError: if the caller's token is not for a project.
        """
        project_id: str | None = self.caller.project_id
        if project_id is None:
            raise errors.ApiError(
                codes.FORBIDDEN, "the token is not for a project"
            )
        return project_id

    def ask(
        self, question: Callable[[conductor_rpcapi.ConductorAPI], _T]
    ) -> _T | None:
        """Query the leading conductor for data that is not in the database.

        :returns: the answer; None if the conductor does not answer.
        """
        answer, answers = self.backends.leader.ask(question)
        self.recorded = not answers
        return answer

    def may(self, rule: str, project_id: str | None = None) -> bool:
        """Whether a policy allows the caller's action.

        :param project_id: owner of the target; None: the caller's project.
        """
        owner = self.caller.project_id if project_id is None else project_id
        allowed = self.backends.enforcer.allows(
            self.caller, rule, {"project_id": owner}
        )
        if allowed:
            self._audit(rule, owner)
        return allowed

    def require(self, rule: str, project_id: str | None = None) -> None:
        """Raise an ApiError unless a policy allows the caller's action."""
        if not self.may(rule, project_id):
            owner = project_id or self.caller.project_id
            self._audit(rule, owner)
            raise forbidden(self.backends.enforcer, self.caller, rule)

    def _audit(self, rule: str, owner: str | None) -> None:
        is_privileged = self.backends.enforcer.is_privileged(self.caller, rule)
        self.audit.add(self.caller, rule, owner, is_privileged)

    def from_inventory(
        self,
        name: str,
        sees_all: bool,
        make: Callable[[inventories.Inventory], Mapping[str, Any]],
    ) -> Answer:
        """Return a list that depends on the inventory and on the caller.

        :param sees_all: whether the caller sees data of other projects in it.
        :param make: makes it of the inventory that the caller sees.
        """
        pool, seen = self.backends.inventory.get(), self.places
        project_id = self.caller.project_id
        asked = name, sees_all, project_id, seen, self.base_url, self.version
        key = *asked, repr(self.query) if self.query else ""
        text = self.backends.lists.get(
            pool, key, lambda: make(seen.inventory(pool))
        )
        return self.tagged(text.tag, data=text.data)

    def has(self, tag: str) -> bool:
        """Whether the client already has the answer with this ETag."""
        return tag in self.etags or "*" in self.etags

    def tagged(
        self,
        tag: str,
        *,
        document: Mapping[str, Any] | None = None,
        data: bytes | None = None,
    ) -> Answer:
        """Return an answer with its ETag, or status 304 if the client already
        has it.
        """
        headers = {"ETag": f'"{tag}"'}
        if self.has(tag):
            return Answer(document=None, status=304, headers=headers)
        return Answer(document=document, data=data, headers=headers)

    def url(self, *parts: str, **query: Any) -> str:
        """Return a URL of the API; the parts of its path follow ``/v1``."""
        quoted = (urllib.parse.quote(part, safe="") for part in parts)
        path = "/".join((self.base_url, "v1", *quoted))
        return (
            f"{path}?{urllib.parse.urlencode(query, True)}" if query else path
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to the client.

    :ivar document: the body as a document; None if it is empty, or in
        ``data`` or ``stream``.
    """

    document: Mapping[str, Any] | None
    data: bytes | None = None
    status: int = 200
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    stream: Iterator[bytes] | None = None
    length_bytes: int | None = None


#: The answer to a successful request that returns no data.
NO_CONTENT = Answer(document=None, status=204)


def self_link(href: str) -> list[dict[str, str]]:
    """Return the links of a resource with one address."""
    return [{"rel": "self", "href": href}]


def public_key(
    call: Call, key: str | None, sees: Callable[[], bool]
) -> str | None:
    """Return an accelerator's key, unless the caller may not see it.

    :param key: the key, or None if there is no accelerator.
    :param sees: returns whether the caller may see another project's
        accelerator; called only if the key belongs to another project.
    """
    owner = names.owner_of(key) if key else None
    if owner in (None, call.caller.project_id) or sees():
        return key
    return None
