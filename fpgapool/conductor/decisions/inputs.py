# SPDX-License-Identifier: Apache-2.0

"""What can be put to the engine."""

from __future__ import annotations

import concurrent.futures
import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from fpgapool import objects
from fpgapool.conductor.decisions import admission
from fpgapool.conductor.decisions import effects
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.objects import bitstream


@dataclasses.dataclass(frozen=True, slots=True)
class Open:
    """A client wants an accelerator.

    :ivar awaited_until: by our clock, when the caller is told that there is
        no answer. The bus keeps calls for as long as their callers wait, and
        no longer: so no clocks need to be compared.
    :ivar future: gets the session when it is recorded, or why there is none.
    """

    request: objects.OpenRequest
    awaited_until: float
    future: effects.ViewFuture

    @property
    def project_id(self) -> str:
        """Whose request it is."""
        return self.request.project_id


@dataclasses.dataclass(frozen=True, slots=True)
class Unrecorded:
    """An admitted session is not, and will not be, in the database.

    :param holder: the session that had its name long ago.
    """

    admission: effects.Admission
    holder: db_api.SessionRecord


@dataclasses.dataclass(frozen=True, slots=True)
class Cancel:
    """A session is wanted no more; named by one of its two names.

    :ivar sender: the host whose front door says so, if that is certain.
    """

    project_id: str
    session_id: str | None
    request_id: str | None
    reason: str
    sender: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Reopen:
    """A client has lost the slot of a session and wants another one.

    :param generation: of the assignment that it has lost.
    :param host_uuid: of its front door; empty for the API.
    :param future: gets how the session stands then; None if there is none
        that can be told of.
    """

    project_id: str
    session_id: str
    generation: int
    host_uuid: str
    future: effects.ViewFuture


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """An agent's state."""

    report: objects.AgentReport


@dataclasses.dataclass(frozen=True, slots=True)
class Prepared:
    """A slot is ready for its client."""

    prepared: objects.Prepared


@dataclasses.dataclass(frozen=True, slots=True)
class RenewSecret:
    """The secret of a READY session did not reach its client."""

    session_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class Library:
    """The accelerators that the database holds now."""

    records: tuple[db_api.AcceleratorRecord, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ChangeBitstream:
    """Somebody changes the library.

    :param future: gets None when the change is durable, or at once an
        :class:`.admission.Rejected` that says why not.
    """

    change: bitstream.BitstreamChange
    future: concurrent.futures.Future[Any]


@dataclasses.dataclass(frozen=True, slots=True)
class NewQuotas:
    """What projects may use from now on."""

    quotas: admission.Quotas


@dataclasses.dataclass(frozen=True, slots=True)
class SetQuota:
    """An administrator limits what a project may use.

    :param limits: by resource; None is back to the default.
    """

    project_id: str
    limits: Mapping[str, int | None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Administer:
    """The operator says what is to become of a device or host.

    :param device: its name; None: the whole host.
    :param drain_within_s: how long who is there may stay; None: for ever.
    :param future: hears, when that is durable, whether there is such a one.
    """

    host_uuid: str
    device: str | None
    state: model.AdminState
    reason: str
    drain_within_s: float | None
    future: concurrent.futures.Future[Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TestNow:
    """The operator wants a slot to be tested.

    :param device: its name.
    :param slot: its number.
    :param accelerator: that it is tested with; empty: any.
    :param future: hears, when that is durable, None or an
        :class:`fpgapool.common.exception.FpgapoolException` that says why
        there is no test.
    """

    host_uuid: str
    device: str
    slot: int
    accelerator: str
    future: concurrent.futures.Future[Any]


@dataclasses.dataclass(frozen=True, slots=True)
class AdmitInstance:
    """An instance gets a token, or its flavor says something else."""

    entry: objects.InstanceEntry


@dataclasses.dataclass(frozen=True, slots=True)
class ReplaceToken:
    """The token that an instance has can be made no more."""

    instance_id: str
    lost_hash: str
    nonce: str
    hash_: str


@dataclasses.dataclass(frozen=True, slots=True)
class RevokeInstance:
    """Somebody takes an instance's token away."""

    instance_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class InstanceDeleted:
    """Nova has no such instance any more."""

    instance_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class InstanceChanged:
    """An instance is on another host, or has another flavor.

    :param host_uuid: None: it is on none, or on one that cannot be told.
    :param max_sessions: how many it may have at a time; None: any number.
    """

    instance_id: str
    host_uuid: str | None
    max_sessions: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class ComputesSeen:
    """Nova has compute nodes of which that was not known."""

    host_uuids: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Reservations:
    """Which instances have slots reserved: all that there are.

    :param by_device: how many of which device, by the identifiers of device
        and instance. What was said before is forgotten.
    """

    by_device: Mapping[str, Mapping[str, int]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SetReservable:
    """The operator says how many slots of a device instances can reserve.

    :param device: its name.
    :param future: hears, when that is durable, None or an
        :class:`fpgapool.common.exception.FpgapoolException` that says why
        it is not so.
    """

    host_uuid: str
    device: str
    slots: int
    future: concurrent.futures.Future[Any]


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeDeleted:
    """Nova has no such compute node any more."""

    host_uuid: str


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """A question; the answer comes when what it rests on is durable.

    :param ask: called on the pump's thread with the engine.
    :param durable: False: the answer comes at once, and a failure of the
        database may make it wrong.
    """

    ask: Callable[[Any], Any]
    future: concurrent.futures.Future[Any]
    durable: bool = True


Input = (
    Open
    | Unrecorded
    | Cancel
    | Reopen
    | Report
    | Prepared
    | RenewSecret
    | Library
    | ChangeBitstream
    | NewQuotas
    | SetQuota
    | Administer
    | TestNow
    | AdmitInstance
    | ReplaceToken
    | RevokeInstance
    | InstanceDeleted
    | InstanceChanged
    | ComputesSeen
    | Reservations
    | SetReservable
    | ComputeDeleted
    | Query
)
