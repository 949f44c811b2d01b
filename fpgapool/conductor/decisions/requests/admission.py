# SPDX-License-Identifier: Apache-2.0

"""Checks whether requests can become sessions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any
from typing import Self

from fpgapool import objects
from fpgapool.conductor.decisions.budgets import rules as budget_rules
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.core import events
from fpgapool.core import health
from fpgapool.core import model
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import names
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import states


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """Limits of the pool: the options of the same names in ``[conductor]``.

    :ivar default_budget: the budget of projects without their own; None: they
        have none.
    :ivar learn_overruns: whether claims are corrected; see
        :class:`~fpgapool.core.queues.overruns.Overruns`.
    :ivar quantum_bytes: minimum input bytes between two borders, the points
        where a session may lose its slot; 0: no borders.
    """

    report_timeout_s: float = 15.0
    lost_session_timeout_s: float = 600.0
    wait_timeout_s: float = 3600.0
    connect_timeout_s: float = 30.0
    resume_grace_s: float = 10.0
    prepare_timeout_s: float = 60.0
    resend_interval_s: float = 2.0
    max_claimed_bytes: int = 2**50
    max_queued_sessions: int = 200_000
    default_quota: ProjectQuota = dataclasses.field(
        default_factory=lambda: ProjectQuota()
    )
    default_budget: budget_rules.Budget | None = None
    claim_slack: float = 0.1
    learn_overruns: bool = True
    idle_timeout_s: float = 60.0
    max_hold_s: float = 86400.0
    min_progress_bytes_per_s: float = 1000.0
    deadline_action: str = states.CONTINUE
    quantum_bytes: int = 0
    power_cap_w: float | None = None
    host_power_caps_w: Mapping[str, float] = dataclasses.field(
        default_factory=dict
    )
    instances_are_local: bool = False
    max_bitstreams_per_project: int | None = 200
    health: health.HealthOptions = dataclasses.field(
        default_factory=health.HealthOptions
    )

    def claim_limit_bytes(self, claimed_bytes: int) -> int:
        """Return the bytes that a session may send while others wait."""
        return math.floor(claimed_bytes * (1 + self.claim_slack))


#: The value that means "no limit" to operators and in Keystone.
UNLIMITED = -1

#: The source of a limit: configuration, the project's row, or Keystone.
FROM_DEFAULT = "default"
FROM_PROJECT = "project"
FROM_KEYSTONE = "keystone"


@dataclasses.dataclass(frozen=True, slots=True)
class ProjectQuota:
    """The limits of one project; None: no limit.

    :ivar sources: the sources of the limits whose source is not FROM_DEFAULT.
    """

    sessions: int | None = None
    queued: int | None = None
    queued_bytes: int | None = None
    live_per_user: int | None = None
    sessions_per_user: int | None = None
    user_turns: int | None = 0
    bitstream_bytes: int | None = None
    groups: int | None = None
    group_slots: int | None = None
    group_clients: int | None = None
    max_priority: int | None = 0
    reservation_slots: int | None = 0
    reservation_times: int | None = None
    sources: Mapping[str, str] = dataclasses.field(
        default_factory=dict, compare=False
    )

    def replaced(self, limits: Mapping[str, int], source: str) -> Self:
        """Return this quota with some limits replaced.

        :param limits: new limits by resource; negative: no limit.
        """
        changes: dict[str, Any] = {
            resource: _unless_negative(limit)
            for resource, limit in limits.items()
        }
        sources = {**self.sources, **dict.fromkeys(limits, source)}
        return dataclasses.replace(self, **changes, sources=sources)

    @property
    def user_rule(self) -> model.UserRule:
        """How users share what the project gets."""
        return model.UserRule(self.sessions_per_user, bool(self.user_turns))

    def limit(self, resource: str) -> int:
        """Return a limit in the operators' notation: -1 means no limit."""
        found: int | None = getattr(self, resource)
        return UNLIMITED if found is None else found

    def source(self, resource: str) -> str:
        return self.sources.get(resource, FROM_DEFAULT)


#: The resources with limits, by the names that operators and Keystone use.
RESOURCES = tuple(
    field.name
    for field in dataclasses.fields(ProjectQuota)
    if field.name != "sources"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Quotas:
    """The limits of all projects."""

    default: ProjectQuota = ProjectQuota()
    of_projects: Mapping[str, ProjectQuota] = dataclasses.field(
        default_factory=dict
    )

    @classmethod
    def layered(
        cls,
        default: ProjectQuota,
        limits: Mapping[str, Mapping[str, int]],
        source: str,
    ) -> Self:
        """Combine a default with projects' own limits.

        :param limits: own limits by project and resource; negative: no limit.
        """
        return cls(
            default,
            {
                project_id: default.replaced(own, source)
                for project_id, own in limits.items()
                if own
            },
        )

    def of(self, project_id: str) -> ProjectQuota:
        return self.of_projects.get(project_id, self.default)

    def session_limits(self) -> events.SessionLimitsChanged:
        """Return an event for the core: limits on slots and priorities."""
        return events.SessionLimitsChanged(
            self.default.sessions,
            tuple((p, q.sessions) for p, q in self.of_projects.items()),
            self.default.max_priority,
            tuple((p, q.max_priority) for p, q in self.of_projects.items()),
            self.default.user_rule,
            tuple((p, q.user_rule) for p, q in self.of_projects.items()),
        )


class Rejected(exceptions.PicklableError):
    """Raised if a request is not allowed."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def check(
    request: objects.OpenRequest,
    limits: PoolLimits,
    pool: registry.Registry,
    profiles: Mapping[str, objects.AcceleratorProfile],
) -> None:
    """Check a request without considering its project's other sessions."""
    try:
        rules.check_request_id(request.request_id)
        description.FIELDS.checked(vars(request))
    except rules.RequestError as error:
        raise Rejected(error.code, error.message) from error
    if request.host_uuid and request.host_uuid not in pool.hosts:
        raise Rejected(codes.UNKNOWN_HOST, f"unknown host {request.host_uuid}")
    check_accelerator(request.accelerator, pool, profiles)
    _check_size(request, limits)


def _unless_negative(limit: int) -> int | None:
    return None if limit < 0 else limit


def check_accelerator(
    name: str,
    pool: registry.Registry,
    profiles: Mapping[str, objects.AcceleratorProfile],
) -> None:
    """Check that the pool can run an accelerator."""
    profile = profiles.get(name)
    if profile is None:
        raise Rejected(
            codes.UNKNOWN_ACCELERATOR,
            names.unknown_accelerator(name, profiles),
        )
    if not any(
        not profile.shapes or slot.shape in profile.shapes
        for slot in pool.present_slots()
    ):
        raise Rejected(
            codes.NO_COMPATIBLE_SLOT,
            f"no slot of this pool can run {name}",
        )


def check_in_use(
    name: str,
    pool: registry.Registry,
    profiles: Mapping[str, objects.AcceleratorProfile],
    faults: Mapping[health.Unit, health.Fault],
) -> None:
    """Check that an accelerator is in service on at least one host."""
    if not any(unit.accelerator == name for unit in faults):
        return
    shapes, found = profiles[name].shapes, None
    for slot in pool.present_slots():
        if slot.faulty or not slot.host.up:
            continue
        if not shapes or slot.shape in shapes:
            found = _fault_of(name, slot, faults)
            if found is None:
                return
    if found is not None:
        raise Rejected(
            codes.ACCELERATOR_OUT_OF_USE,
            f"{name} is out of service: it has failed on every host that can"
            f" run it, most recently with {found.last_test or found.reason};"
            " it returns when a self-test passes",
        )


def _fault_of(
    name: str,
    slot: registry.SlotEntry,
    faults: Mapping[health.Unit, health.Fault],
) -> health.Fault | None:
    level, host_id = health.Level.ACCELERATOR, slot.host.id
    return faults.get(
        health.Unit(level, host_id, name, slot.shape)
    ) or faults.get(health.Unit(level, host_id, name))


def _check_size(request: objects.OpenRequest, limits: PoolLimits) -> None:
    if request.claimed_bytes < 1:
        raise Rejected(codes.INVALID_SIZE, "size must be at least 1 byte")
    if request.claimed_bytes > limits.max_claimed_bytes:
        raise Rejected(
            codes.SIZE_TOO_LARGE,
            f"size must be at most {limits.max_claimed_bytes} bytes",
        )


def check_deadline(
    request: objects.OpenRequest,
    deadline_s: float,
    best_peak_bytes_per_s: float,
    programming_s: float,
) -> None:
    """Check that a slot could process a request before its deadline.

    :param best_peak_bytes_per_s: the highest input rate of any slot.
    :param programming_s: how long a slot must be programmed before.
    """
    least_s = programming_s + request.claimed_bytes / best_peak_bytes_per_s
    if deadline_s < least_s:
        raise Rejected(
            codes.DEADLINE_IMPOSSIBLE,
            f"the fastest slot needs at least {least_s:.3g} s for"
            f" {request.claimed_bytes} bytes, but the deadline is in"
            f" {deadline_s:g} s",
        )


def check_quota(
    project_id: str,
    what: str,
    limit: int | None,
    used: int,
    wanted: int,
    *,
    user_id: str = "",
) -> None:
    """Check that a project may have more of a resource.

    :param what: the resource in the plural.
    :param limit: None: no limit.
    :param user_id: the user whose part of it is limited; empty: the whole is.
    """
    if limit is not None and used + wanted > limit:
        who = f"user {user_id} of project" if user_id else "project"
        raise Rejected(
            codes.QUOTA_EXCEEDED,
            f"{who} {project_id} may have {limit} {what}: it has {used},"
            f" and {wanted} more would be too many",
        )


def not_recordable() -> Rejected:
    """Return the error for requests while the database is unavailable."""
    return Rejected(
        codes.DATABASE_UNAVAILABLE,
        "the database is unavailable; try again later",
    )


def refusal(
    request: objects.OpenRequest, error: Rejected, now: float
) -> objects.SessionView:
    """Return the answer to a refused request, which is not recorded."""
    return objects.SessionView.rejected(
        request, error.code, str(error), finished_at=now
    )
