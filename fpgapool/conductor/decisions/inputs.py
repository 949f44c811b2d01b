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
from fpgapool.conductor.decisions.requests import admission
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.objects import bitstream
from fpgapool.objects import group


@dataclasses.dataclass(frozen=True, slots=True)
class Open:
    """A client requests a session.

    :ivar awaited_until: when the caller's timeout ends, by our clock. The bus
        keeps a call only while its caller waits, so our clock is enough.
    :ivar future: gets the session when it is recorded, or the refusal.
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
    """An admitted session was not recorded: its request id is taken.

    :param holder: the older session with the same request id.
    """

    admission: effects.Admission
    holder: db_api.SessionRecord


@dataclasses.dataclass(frozen=True, slots=True)
class Cancel:
    """A client cancels a session, named by one of its two ids.

    :ivar sender: the host of the front door, if its signature proves it.
    """

    project_id: str
    session_id: str | None
    request_id: str | None
    reason: str
    sender: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Close:
    """A client has closed a session that was served.

    :ivar generation: of the slot that served it last.
    :ivar input_bytes: that its slots have computed, as the client says; the
        output likewise.
    :ivar confirmed: whether the worker has confirmed it.
    :ivar sender: the host of the front door, if its signature proves it.
    """

    project_id: str
    session_id: str
    generation: int
    input_bytes: int
    output_bytes: int
    confirmed: bool
    sender: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ClientProgress:
    """A client has computed a part of its input while its session waits.

    :ivar sender: the host of the front door, if its signature proves it.
    """

    project_id: str
    session_id: str
    input_bytes: int
    sender: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Reopen:
    """A client has lost the slot of a session and wants another one.

    :param generation: of the lost assignment.
    :param host_uuid: of its front door; empty for the API.
    :param future: gets the session's state then; None if the caller may not
        know it.
    """

    project_id: str
    session_id: str
    generation: int
    host_uuid: str
    future: effects.ViewFuture


@dataclasses.dataclass(frozen=True, slots=True)
class RenewSecret:
    """The secret of a READY session did not reach its client."""

    session_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class Library:
    """The accelerators in the database have changed."""

    records: tuple[db_api.AcceleratorRecord, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ChangeBitstream:
    """A request to change the library.

    :param future: gets None when the change is durable, or an
        :class:`.admission.Rejected` with the reason.
    """

    change: bitstream.BitstreamChange
    future: concurrent.futures.Future[Any]


@dataclasses.dataclass(frozen=True, slots=True)
class ChangeGroup:
    """A request to change a group or its clients.

    :param future: as that of :class:`ChangeBitstream`.
    """

    change: group.GroupChange
    future: concurrent.futures.Future[Any]


@dataclasses.dataclass(frozen=True, slots=True)
class NewQuotas:
    """Keystone's limits have changed."""

    quotas: admission.Quotas


@dataclasses.dataclass(frozen=True, slots=True)
class SetQuota:
    """An administrator sets limits of a project.

    :param limits: by resource; None: back to the default.
    """

    project_id: str
    limits: Mapping[str, int | None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Administer:
    """An operator sets the administrative state of a device or host.

    :param device: its name; None: the whole host.
    :param drain_within_s: the time that holders may stay; None: for ever.
    :param future: gets, after the commit, whether the device or host exists.
    """

    host_uuid: str
    device: str | None
    state: model.AdminState
    reason: str
    drain_within_s: float | None
    future: concurrent.futures.Future[Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TestNow:
    """An operator orders a test of a slot.

    :param device: its name.
    :param slot: its number.
    :param accelerator: with which to test it; empty: any.
    :param future: gets, after the commit, None or an
        :class:`fpgapool.common.exception.FpgapoolException` with the reason
        why there is no test.
    """

    host_uuid: str
    device: str
    slot: int
    accelerator: str
    future: concurrent.futures.Future[Any]


@dataclasses.dataclass(frozen=True, slots=True)
class AdmitInstance:
    """An instance gets a token, or its flavor's limits have changed."""

    entry: objects.InstanceEntry


@dataclasses.dataclass(frozen=True, slots=True)
class ReplaceToken:
    """An instance gets a new token: the secret of the old one is lost."""

    instance_id: str
    lost_hash: str
    nonce: str
    hash_: str


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
    """An instance is on another host, or has another flavor.

    :param host_uuid: None: it is on no host, or on an unknown one.
    :param max_sessions: its limit of sessions; None: no limit.
    """

    instance_id: str
    host_uuid: str | None
    max_sessions: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class ComputesSeen:
    """Nova lists compute nodes for hosts that had none so far."""

    host_uuids: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Reservations:
    """All reservations of all instances.

    They replace the former ones.

    :param by_device: the number of slots, by UUIDs of device and instance.
    """

    by_device: Mapping[str, Mapping[str, int]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SetReservable:
    """An operator sets how many slots of a device instances can reserve.

    :param device: its name.
    :param future: gets, after the commit, None or an
        :class:`fpgapool.common.exception.FpgapoolException` with the reason
        for a refusal.
    """

    host_uuid: str
    device: str
    slots: int
    future: concurrent.futures.Future[Any]


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeDeleted:
    """Nova has deleted a compute node."""

    host_uuid: str


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """A query; the answer waits until its data is durable.

    :param ask: called on the pump's thread with a
        :class:`.questions.Questions`.
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
    | ClientProgress
    | Reopen
    | objects.AgentReport
    | objects.Prepared
    | RenewSecret
    | Library
    | ChangeBitstream
    | ChangeGroup
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
