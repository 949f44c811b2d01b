# SPDX-License-Identifier: Apache-2.0

"""The inputs of the engine."""

from __future__ import annotations

import concurrent.futures
import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from fpgapool import objects
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions.budgets import book as budget_book
from fpgapool.conductor.decisions.budgets import rules as budget_rules
from fpgapool.conductor.decisions.requests import admission
from fpgapool.core import model
from fpgapool.core.queues import share_tree
from fpgapool.db import api as db_api
from fpgapool.objects import bitstream
from fpgapool.objects import group


def _new_future() -> concurrent.futures.Future[Any]:
    # Looked up at each call, because tests replace the class.
    return concurrent.futures.Future()


@dataclasses.dataclass(frozen=True, slots=True)
class _Awaited:
    """An input whose sender is waiting for an answer."""

    future: concurrent.futures.Future[Any] = dataclasses.field(
        default_factory=_new_future, kw_only=True
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Open(_Awaited):
    """A client requests a session.

    :ivar awaited_until: when the caller's timeout ends at the latest, by the
        conductor's clock.
    :ivar secret: for a new session whose request has no hash of a secret;
        empty: its slot's worker creates one.
    """

    request: objects.OpenRequest
    awaited_until: float
    secret: str = dataclasses.field(default="", repr=False)

    @property
    def project_id(self) -> str:
        """The project that makes the request."""
        return self.request.project_id


@dataclasses.dataclass(frozen=True, slots=True)
class Unrecorded:
    """An admitted session's request id turned out to be already used."""

    admission: effects.NewSession
    holder: db_api.SessionRecord


@dataclasses.dataclass(frozen=True, slots=True)
class Cancel:
    """A client cancels a session, identified by one of its two ids.

    :ivar sender: host of the front door, if its signature proves it.
    :ivar future: receives its state; None if nobody waits for it.
    """

    project_id: str
    session_id: str | None
    request_id: str | None
    reason: str
    sender: str | None = None
    future: effects.ViewFuture | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Close:
    """A client has closed a session that had a slot.

    :ivar generation: generation of the slot that it used last.
    :ivar input_bytes: its slots' input bytes, according to the client.
    :ivar future: receives its state; None if nobody waits for it.
    """

    project_id: str
    session_id: str
    generation: int
    input_bytes: int
    output_bytes: int
    confirmed: bool
    sender: str | None = None
    future: effects.ViewFuture | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ClientProgress:
    """A client has processed input itself while waiting for a slot."""

    project_id: str
    session_id: str
    input_bytes: int
    sender: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Reopen(_Awaited):
    """A client has lost the slot of its session and requests another one.

    :ivar host_uuid: host of its front door; empty for the API.
    :ivar future: receives its state; None if the client may not see it.
    """

    project_id: str
    session_id: str
    generation: int
    host_uuid: str


@dataclasses.dataclass(frozen=True, slots=True)
class RenewSecret:
    """The secret of a READY session did not reach its client."""

    session_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class Library:
    """The accelerators in the database have changed."""

    records: tuple[db_api.AcceleratorRecord, ...]


# Requests for changes. The future receives None once the change is durable, or
# the exception if it is refused.


@dataclasses.dataclass(frozen=True, slots=True)
class ChangeBitstream(_Awaited):
    """A request to change the library."""

    change: bitstream.BitstreamChange


@dataclasses.dataclass(frozen=True, slots=True)
class ChangeGroup(_Awaited):
    """A request to change a group or its clients."""

    change: group.GroupChange


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Administer(_Awaited):
    """An operator sets the administrative state of a device or host.

    :ivar device: name of the device; None: the whole host.
    :ivar reason: empty: hardware that stays out of use keeps its reason, and
        so does hardware that stays enabled.
    :ivar drain_within_s: time until the slots are revoked; None: never.
    """

    host_uuid: str
    device: str | None
    state: model.AdminState
    reason: str
    drain_within_s: float | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TestNow(_Awaited):
    """An operator requests a test of a slot; empty accelerator: any."""

    host_uuid: str
    device: str
    slot: int
    accelerator: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SetReservable(_Awaited):
    """An operator sets how many slots of a device instances can reserve."""

    host_uuid: str
    device: str
    slots: int


@dataclasses.dataclass(frozen=True, slots=True)
class NewQuotas:
    """Keystone's limits have changed."""

    quotas: admission.Quotas


@dataclasses.dataclass(frozen=True, slots=True)
class NewTree:
    """Keystone's domains and projects have changed."""

    places: share_tree.Places


@dataclasses.dataclass(frozen=True, slots=True)
class SetQuota:
    """An administrator sets limits of a project; None restores a default."""

    project_id: str
    limits: Mapping[str, int | None]


@dataclasses.dataclass(frozen=True, slots=True)
class SetBudget:
    """An administrator sets a project's budget; None: the default applies.

    :ivar past: what the project used before today.
    """

    project_id: str
    budget: budget_rules.Budget | None
    past: budget_book.Past


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SetReservation(_Awaited):
    """A reservation by calendar is created, changed or deleted.

    :ivar wanted: members of :data:`fpgapool.vocabulary.reservation.MEMBERS`;
        of a change only what changes. None: delete it.
    :ivar project_id: the owner of a new reservation; empty: it must exist.
    :ivar exempt: whether the project's quota does not limit it.
    """

    reservation_id: str
    wanted: Mapping[str, Any] | None
    project_id: str = ""
    user_id: str = ""
    exempt: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class AdmitInstance:
    """An instance gets a token, or its flavor's limits have changed.

    :ivar lost_hash: hash of its token, if it must be replaced because its
        secret is lost.
    """

    entry: objects.InstanceEntry
    lost_hash: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class RevokeInstance:
    """A user revokes an instance's token."""

    instance_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class InstanceDeleted:
    """Nova has deleted an instance."""

    instance_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class InstanceChanged:
    """An instance has moved to another host or changed its flavor.

    :ivar host_uuid: its current host; None if it has none or an unknown one.
    :ivar max_sessions: its current limit on sessions; None: no limit.
    """

    instance_id: str
    host_uuid: str | None
    max_sessions: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class ComputesSeen:
    """Nova now lists compute nodes for these hosts."""

    host_uuids: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeDeleted:
    """Nova has deleted a compute node."""

    host_uuid: str


@dataclasses.dataclass(frozen=True, slots=True)
class Reservations:
    """All reservations of all instances, replacing the previous ones.

    :ivar by_device: the number of slots, by UUIDs of device and instance.
    """

    by_device: Mapping[str, Mapping[str, int]]


@dataclasses.dataclass(frozen=True, slots=True)
class Query(_Awaited):
    """A query; the answer waits until its data is durable.

    :ivar ask: called with :class:`.questions.Questions` in the pump's thread.
    :ivar durable: whether the answer waits; if not, a database failure may
        invalidate it.
    """

    ask: Callable[[Any], Any]
    durable: bool = True


Change = (
    ChangeBitstream
    | ChangeGroup
    | Administer
    | TestNow
    | SetReservable
    | SetReservation
)

Input = (
    Change
    | Open
    | Unrecorded
    | Cancel
    | Close
    | ClientProgress
    | Reopen
    | objects.AgentReport
    | objects.Prepared
    | RenewSecret
    | Library
    | NewQuotas
    | NewTree
    | SetQuota
    | SetBudget
    | AdmitInstance
    | RevokeInstance
    | InstanceDeleted
    | InstanceChanged
    | ComputesSeen
    | ComputeDeleted
    | Reservations
    | Query
)
