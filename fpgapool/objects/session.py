# SPDX-License-Identifier: Apache-2.0

"""Payloads about sessions."""

import dataclasses
from typing import Any
from typing import Self

from fpgapool.objects import base
from fpgapool.objects import bitstream as bitstreams
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import states


@dataclasses.dataclass(frozen=True, kw_only=True)
@fields.with_members(base.request_members(description.FIELDS.options))
class OpenRequest(base.Payload):
    """A client's request for an accelerator, with all its options.

    :param host_uuid: the host where the client runs; None if it is
        not a host of the pool.
    :param secret_sha256: hash of the client's secret for the first slot, in
        hexadecimal; empty: the conductor creates a secret.
    :param carrier: see :mod:`fpgapool.vocabulary.carriers`; not checked.
    """

    VERSION = base.version(
        [1, *(one.in_request for one in description.FIELDS.options)]
    )

    request_id: str
    project_id: str
    user_id: str
    host_uuid: str | None
    accelerator: str
    claimed_bytes: int
    secret_sha256: str = ""
    carrier: dict[str, Any] | None = base.added(1, None)


@dataclasses.dataclass(frozen=True)
class Endpoint(base.Payload):
    """Where a worker listens.

    :param network: the operator's name for the network; for ``"local"``, the
        client must request a connection from the front door of the slot's
        host, the address is empty, and the port is 0.
    """

    network: str
    address: str
    port: int


@dataclasses.dataclass(frozen=True, kw_only=True)
@fields.with_members(base.view_members(description.FIELDS))
class SessionView(base.Payload):
    """Everything that a session's owner may know about it.

    A view with a higher revision replaces it. In addition to the described
    fields, it contains the session's slot and the data for connecting to it.

    :param secret: the secret in hexadecimal; empty except in a READY view for
        the front door that opened the session, or for its project, and in a
        PREPARING one if the slot's holder has to leave first.
    :param secret_sha256: in such a view, hash of the secret that the slot
        expects, if the front door has the secret and the pool does not; empty:
        ``secret`` applies.
    """

    VERSION = base.version(one.in_view for one in description.FIELDS.in_view)

    slot_host_uuid: str | None = None
    slot_host_name: str | None = None
    device: str | None = None
    slot: int | None = None
    endpoints: tuple[Endpoint, ...] = ()
    secret: str = dataclasses.field(default="", repr=False)
    certificate_sha256: str | None = None
    secret_sha256: str = ""

    @classmethod
    def of(cls, one: Any, **others: Any) -> Self:
        """Return the view of a session."""
        return cls._made({**_UNRECORDED, **_recorded(one), **others})

    @classmethod
    def rejected(
        cls, request: OpenRequest, reason: str, message: str, **others: Any
    ) -> Self:
        """Return the answer to a request that was refused."""
        return cls(
            session_id="",
            state=states.REJECTED,
            reason=reason,
            message=message,
            **_requested(request),
            **others,
        )

    def public(self) -> Self:
        """Return the view without its secret."""
        return dataclasses.replace(self, secret="")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DryRun(base.Payload):
    """The predicted outcome of a request, if it were made now.

    :param state: state that the session would have: PREPARING if it would get
        a slot immediately, QUEUED if it would wait, REJECTED if it would be
        refused.
    :param reasons: why it would wait, or the code of the refusal.
    :param expected_wait_s: expected wait; None if unknown, or if the request
        would be refused. Nine of ten waits lie between
        ``expected_wait_low_s`` and ``expected_wait_high_s``.
    :param budget_pct: how much the session will probably take of what is left
        of its project's budget; None: it has none, or the session would be
        refused.
    """

    VERSION = "1.2"

    state: str
    reasons: tuple[str, ...] = ()
    message: str = ""
    expected_wait_s: float | None = None
    expected_wait_low_s: float | None = base.added(1, None)
    expected_wait_high_s: float | None = base.added(1, None)
    budget_pct: float | None = base.added(2, None)


_RECORDED = [one.name for one in description.FIELDS.in_view if one.in_record]
_recorded = fields.copier(_RECORDED)
_requested = fields.copier(
    name
    for name in base.members(OpenRequest)
    if name in base.members(SessionView)
)
_UNRECORDED = {
    field.name: field.default
    for field in dataclasses.fields(SessionView)
    if field.name not in _RECORDED
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SessionEnd(base.Payload):
    """A client cancels its session, or has closed it.

    :param generation: generation of the slot that it used last, if the client
        has closed it; 0: it is cancelled.
    :param input_bytes: its slots' input bytes, according to the client.
    """

    project_id: str
    session_id: str
    generation: int = 0
    input_bytes: int = 0
    output_bytes: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class SessionResult(base.Payload):
    """How an assignment ended, according to its worker or agent."""

    session_id: str
    generation: int
    state: str
    code: str
    message: str = ""
    input_bytes: int = 0
    output_bytes: int = 0
    started_at: float | None = None
    finished_at: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Offer(base.Payload):
    """Where the client of a slot's next session can connect immediately.

    :param certificate_sha256: hash of the worker's certificate; None without
        TLS.
    :param project_id: the only project that the worker may serve; None if it
        has not served any project yet.
    :param keeps_order: whether the agent keeps the session's order until the
        slot's holder has left.
    """

    VERSION = "1.1"

    endpoints: tuple[Endpoint, ...]
    certificate_sha256: str | None = None
    project_id: str | None = None
    keeps_order: bool = base.added(1, False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AssignRequest(base.Payload):
    """The conductor's order to prepare a slot for a session.

    :param bitstream: ``"builtin:<accelerator>"`` means the accelerator's
        own implementation in the driver, ``"bitstream:<id>"`` the file of
        ``bitstream_ref``.
    :param origin_host_uuid: the host where the client runs; None if it is
        not a host of the pool.
    :param claim_limit_bytes: number of input bytes above which the conductor
        is notified immediately.
    :param quantum_bytes: number of input bytes between two borders, each of
        which is reported to the conductor immediately; 0: no borders.
    :param idle_timeout_s: longest time without new input; for this member and
        the next two, 0 means no limit.
    :param bitstream_ref: the file that ``bitstream`` names; None if the
        driver has its own.
    :param self_test: whether the order only tests the slot, without a session.
    :param group_id: the group that the slot joins, also used as the
        ``session_id``; empty if a session gets the slot.
    :param secret_sha256: hash of the client's secret, in hexadecimal; empty:
        the worker creates a secret.
    :param offer: where the client connects, from an earlier report. With an
        offer, the conductor need not be notified immediately when the slot is
        ready.
    :param request_id: ID of the session's request; empty for a group. This
        member and the next are only for logs and traces.
    :param carrier: see :mod:`fpgapool.vocabulary.carriers`; not checked.
    :param after_generation: the assignment that must end first; 0: the slot
        is free. If it does not end soon, the agent gives the order back: it
        reports the order's generation as seen, and the holder as it was.
    """

    VERSION = "1.1"

    host_uuid: str
    device: str
    slot: int
    session_id: str
    generation: int
    project_id: str
    accelerator: str
    bitstream: str
    connect_timeout_s: float
    resume_grace_s: float
    claimed_bytes: int
    local: bool
    origin_host_uuid: str | None = None
    claim_limit_bytes: int = 0
    idle_timeout_s: float = 0.0
    max_hold_s: float = 0.0
    min_progress_bytes_per_s: float = 0.0
    bitstream_ref: bitstreams.BitstreamRef | None = None
    self_test: bool = False
    group_id: str = ""
    quantum_bytes: int = 0
    secret_sha256: str = ""
    offer: Offer | None = None
    request_id: str = base.added(1, "")
    carrier: dict[str, Any] | None = base.added(1, None)
    after_generation: int = base.added(1, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared(base.Payload):
    """Reports that a slot is ready for its session's client.

    :param secret: single-use secret in hexadecimal; empty if the client has
        its own.
    :param sequence: sequence number of the agent's last report. This report
        and earlier ones do not show the slot as ready, and may arrive later.
    """

    host_uuid: str
    device: str
    slot: int
    session_id: str
    generation: int
    secret: str = dataclasses.field(repr=False)
    endpoints: tuple[Endpoint, ...]
    certificate_sha256: str | None = None
    agent_boot_id: str = ""
    sequence: int = 0
