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

"""Which requests become sessions."""

from __future__ import annotations

import collections
import dataclasses
import math
import re
from collections.abc import Mapping

from fpgapool import objects
from fpgapool.conductor import registry
from fpgapool.core import codes
from fpgapool.objects import states

_REQUEST_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_MAX_PRIORITY = 1000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits, see the options of the same names in ``[conductor]``."""

    report_timeout_s: float = 15.0
    lost_session_timeout_s: float = 600.0
    wait_timeout_s: float = 3600.0
    connect_timeout_s: float = 30.0
    resume_grace_s: float = 10.0
    prepare_timeout_s: float = 60.0
    resend_interval_s: float = 2.0
    max_claimed_bytes: int = 2**50
    max_queued_sessions: int = 200_000
    max_queued_per_project: int = 20_000
    claim_slack: float = 0.1
    idle_timeout_s: float = 60.0
    max_hold_s: float = 86400.0
    min_progress_bytes_per_s: float = 1000.0

    def claim_limit_bytes(self, claimed_bytes: int) -> int:
        """Return what a session may send while others wait."""
        return math.floor(claimed_bytes * (1 + self.claim_slack))


class Rejected(Exception):
    """A request cannot become a session.

    :ivar code: of :mod:`fpgapool.core.codes`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def check(
    request: objects.OpenRequest,
    limits: Limits,
    pool: registry.Registry,
    profiles: Mapping[str, objects.AcceleratorProfile],
    queued: collections.Counter[str],
) -> None:
    """Check all that can be wrong with a request.

    :param pool: the known hosts and slots.
    :param profiles: the library.
    :param queued: how many requests each project has in the queue.
    :raises Rejected: if the request cannot become a session.
    """
    if not _REQUEST_ID.fullmatch(request.request_id):
        raise Rejected(
            codes.INVALID_REQUEST_ID,
            "a request id is 1 to 64 of the characters A-Z a-z 0-9 _.:-",
        )
    if request.host_uuid and request.host_uuid not in pool.hosts:
        raise Rejected(
            codes.UNKNOWN_HOST, f"host {request.host_uuid} is unknown"
        )
    _check_accelerator(request.accelerator, pool, profiles)
    _check_numbers(request, limits)
    _check_room(request.project_id, limits, queued)


def _check_accelerator(
    name: str,
    pool: registry.Registry,
    profiles: Mapping[str, objects.AcceleratorProfile],
) -> None:
    profile = profiles.get(name)
    if profile is None:
        raise Rejected(
            codes.UNKNOWN_ACCELERATOR,
            f"unknown accelerator {name!r:.80}; known are:"
            f" {', '.join(sorted(profiles)) or 'none'}",
        )
    if not any(
        not profile.shapes or slot.shape in profile.shapes
        for slot in pool.slots.values()
    ):
        raise Rejected(
            codes.NO_COMPATIBLE_SLOT,
            f"no slot of the pool can run {name}",
        )


def _check_numbers(request: objects.OpenRequest, limits: Limits) -> None:
    if request.claimed_bytes < 1:
        raise Rejected(codes.INVALID_SIZE, "the size must be at least 1")
    if request.claimed_bytes > limits.max_claimed_bytes:
        raise Rejected(
            codes.SIZE_TOO_LARGE,
            f"the size must be at most {limits.max_claimed_bytes} bytes",
        )
    if abs(request.priority) > _MAX_PRIORITY:
        raise Rejected(
            codes.INVALID_REQUEST,
            f"a priority lies within -{_MAX_PRIORITY} and {_MAX_PRIORITY}",
        )
    for value in (request.wait_timeout_s, request.connect_timeout_s):
        if value is not None and value <= 0:
            raise Rejected(
                codes.INVALID_TIMEOUT, "a time limit must be above 0 s"
            )
    if request.resume_grace_s is not None and request.resume_grace_s < 0:
        raise Rejected(
            codes.INVALID_TIMEOUT, "resume_grace_s must not be negative"
        )


def _check_room(
    project_id: str, limits: Limits, queued: collections.Counter[str]
) -> None:
    if queued.total() >= limits.max_queued_sessions:
        raise Rejected(codes.QUEUE_FULL, "the queue is full, try later")
    if queued[project_id] >= limits.max_queued_per_project:
        raise Rejected(
            codes.QUOTA_EXCEEDED,
            f"the project has {queued[project_id]} requests in the"
            " queue, which is its limit",
        )


def refusal(
    request: objects.OpenRequest, error: Rejected, now: float
) -> objects.SessionView:
    """Return the answer to a request that leaves no other trace."""
    return objects.SessionView(
        session_id="",
        request_id=request.request_id,
        project_id=request.project_id,
        state=states.REJECTED,
        reason=error.code,
        message=str(error),
        accelerator=request.accelerator,
        claimed_bytes=request.claimed_bytes,
        host_uuid=request.host_uuid,
        finished_at=now,
    )
