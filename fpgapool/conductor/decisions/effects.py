# SPDX-License-Identifier: Apache-2.0

"""The effects of the engine's decisions: rows to write and messages to send.

The group-commit thread and the sender carry out the :class:`Effects` that the
engine returns. Orders to agents are sent immediately, so that slots are
prepared while the rows are being written; other messages are sent once their
rows are durable.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import ClassVar

from fpgapool import objects
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

ViewFuture = concurrent.futures.Future[objects.SessionView | None]


class Message:
    """A message to an agent, a front door or a waiting caller."""

    __slots__ = ()

    after_commit: ClassVar[bool] = False


@dataclasses.dataclass(frozen=True, slots=True)
class AssignSlot(Message):
    """Order an agent to prepare a slot for its holder."""

    request: objects.AssignRequest


@dataclasses.dataclass(frozen=True, slots=True)
class TestSlot(Message):
    """Order an agent to test a slot."""

    request: objects.AssignRequest


@dataclasses.dataclass(frozen=True, slots=True)
class ReleaseSlot(Message):
    """Order an agent to end one generation of a slot."""

    host_uuid: str
    device: str
    slot: int
    session_id: str
    generation: int
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class KeepGroup(Message):
    """Send an agent the desired state of a group's desk."""

    host_uuid: str
    order: objects.GroupOrder


@dataclasses.dataclass(frozen=True, slots=True)
class ReissueSecret(Message):
    """Request a new secret for a prepared, unconnected slot."""

    host_uuid: str
    device: str
    slot: int
    generation: int


@dataclasses.dataclass(frozen=True, slots=True)
class PublishSession(Message):
    """Send a front door the state of one of its sessions.

    :ivar host_uuid: host of the front door; None if the view is only for a
        waiting caller.
    :ivar waiting: calls that this answers; the front door gets a separate
        message only if nobody waits for these calls any more.
    """

    host_uuid: str | None
    view: objects.SessionView
    waiting: tuple[ViewFuture, ...] = ()
    after_commit: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True, slots=True)
class SessionChanged(Message):
    """Tell the REST API of a change of a session without a front door.

    :ivar view: as its project sees it, with the secret if its client may
        connect.
    """

    view: objects.SessionView
    after_commit: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True, slots=True)
class AskReport(Message):
    """Request an immediate report from an agent."""

    host_uuid: str


@dataclasses.dataclass(frozen=True, slots=True)
class Reply(Message):
    """Resolve a query that an RPC handler is waiting for.

    :ivar failed: whether the value is an exception, which the handler then
        raises.
    """

    future: concurrent.futures.Future[Any]
    value: Any
    failed: bool = False
    after_commit: ClassVar[bool] = True


class EarlyReply(Reply):
    """A reply that is sent before its rows are durable; a database failure may
    invalidate it.
    """

    __slots__ = ()

    after_commit: ClassVar[bool] = False


@dataclasses.dataclass(frozen=True, slots=True)
class NewSession:
    """A new session, unless its request id is already used."""

    row_id: int
    session_id: str
    request: objects.OpenRequest
    future: ViewFuture


# Clients do not act on these states: most last only milliseconds, and clients
# close their sessions themselves.
_STEPS = frozenset(
    {
        states.QUEUED,
        states.PREPARING,
        states.ACTIVE,
        states.DETACHED,
        states.CLOSED,
    }
)


@dataclasses.dataclass(slots=True)
class Effects:
    """The outcome of one batch of inputs.

    :ivar withdrawn: row ids of sessions that were not recorded; no further
        messages about them are sent.
    """

    changes: db_api.Changes
    at_once: list[Message] = dataclasses.field(default_factory=list)
    after_commit: list[Message] = dataclasses.field(default_factory=list)
    admissions: list[NewSession] = dataclasses.field(default_factory=list)
    withdrawn: list[int] = dataclasses.field(default_factory=list)

    @classmethod
    def merged(cls, batches: Sequence[Effects]) -> Effects:
        """Merge batches, and drop outdated messages and cancelled answers.

        The ``at_once`` messages are omitted: they have already been sent.
        """
        return cls(
            changes=db_api.Changes.merged(batch.changes for batch in batches),
            after_commit=newest(
                message for batch in batches for message in batch.after_commit
            ),
            admissions=[one for batch in batches for one in batch.admissions],
            withdrawn=[one for batch in batches for one in batch.withdrawn],
        )

    def can_wait(self) -> bool:
        """Whether its commit may be delayed: no client is waiting for it."""
        return all(map(can_wait, self.after_commit))


def newest(messages: Iterable[Message]) -> list[Message]:
    """Drop outdated messages and cancelled answers.

    Calls that wait for a session get its newest view.
    """
    found: dict[object, Message] = {}
    for message in messages:
        if isinstance(message, Reply) and message.future.done():
            continue
        key = _subject(message)
        # The newest message keeps its own position.
        older = found.pop(key, None)
        if isinstance(message, PublishSession) and isinstance(
            older, PublishSession
        ):
            waiting = older.waiting + message.waiting
            message = dataclasses.replace(message, waiting=waiting)
        found[key] = message
    return list(found.values())


def _subject(message: Message) -> object:
    """Return a key; a message replaces older ones with the same key."""
    if isinstance(message, PublishSession):
        return message.host_uuid, message.view.session_id
    if isinstance(message, SessionChanged):
        return message.view.session_id
    if isinstance(message, AskReport):
        return message.host_uuid
    return id(message)


def can_wait(message: Message) -> bool:
    """Whether a message may be delayed because no client is waiting for it."""
    if isinstance(message, SessionChanged):
        # Who cancels a session has the answer of that call.
        return (
            _is_step(message.view)
            or message.view.reason == codes.CANCELLED_BY_CLIENT
        )
    return (
        isinstance(message, PublishSession)
        and message.host_uuid is not None
        and _is_step(message.view)
    )


def _is_step(view: objects.SessionView) -> bool:
    # A successor's client connects to its slot already.
    return view.state in _STEPS and not view.endpoints
