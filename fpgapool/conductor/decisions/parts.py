# SPDX-License-Identifier: Apache-2.0

"""The base of rooms, and the parts of the leader's state that all of them use.

A room is a component of the engine, and a dataclass. Its fields name the parts
that it uses; :meth:`.pool.Pool.room` sets them. :func:`handles` marks its
methods that handle inputs or instructions of the core.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import math
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import ClassVar
from typing import TypeVar

from oslo_log import log as logging

from fpgapool.common import exception
from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import expected_waits
from fpgapool.core import events
from fpgapool.core import instructions as core_instructions
from fpgapool.core import state as core_state
from fpgapool.db import api as db_api

LOG = logging.getLogger(__name__)

#: Handles one input, or one instruction of the core.
Handler = Callable[[Any], None]

_Method = TypeVar("_Method", bound=Callable[..., None])


def handles(*kinds: type) -> Callable[[_Method], _Method]:
    """Mark a method of a room as the handler of inputs or instructions."""

    def mark(method: _Method) -> _Method:
        method.kinds = kinds  # type: ignore[attr-defined]
        return method

    return mark


class WrongMove(Exception):
    """A session's life cycle does not allow a transition."""


@dataclasses.dataclass(eq=False, slots=True)
class Clock:
    """The time at which the current batch is processed.

    :ivar ahead_s: how far ``now`` is ahead of pool time.
    """

    ahead_s: float
    now: float = -math.inf

    @property
    def pool_time(self) -> float:
        """The time of the batch, in pool time."""
        return self.now - self.ahead_s


@dataclasses.dataclass(eq=False, slots=True)
class Outages:
    """Times at which the database or the message bus was unavailable.

    :ivar failing_at: when the database last failed, which delays messages.
    :ivar unreachable_until: time until which reports may not have reached the
        conductor, so that silent hosts are not necessarily down.
    """

    database_failing: bool = False
    failing_at: float = -math.inf
    unreachable_until: float = -math.inf

    @property
    def last_at(self) -> float:
        """The last time at which clients could not be notified."""
        return max(self.failing_at, self.unreachable_until)


class Outbox:
    """Collects the rows and messages of a batch.

    :ivar admissions: new sessions, recorded unless their request id is used.
    :ivar withdrawn: row ids of sessions that were not recorded.
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._rows: list[db_api.Record] = []
        self._assignments: dict[int, db_api.AssignmentRecord | None] = {}
        self._messages: list[effects.Message] = []
        self.admissions: list[effects.NewSession] = []
        self.withdrawn: list[int] = []

    def write(self, *rows: db_api.Record) -> None:
        """Add rows to write."""
        self._rows += rows

    def write_assignment(
        self, slot_id: int, row: db_api.AssignmentRecord | None
    ) -> None:
        """Set the row of a slot's assignment; None: delete it."""
        self._assignments[slot_id] = row

    def send(self, *messages: effects.Message) -> None:
        """Add messages."""
        self._messages += messages

    def take(self) -> effects.Effects:
        """Return and clear the collected effects."""
        given = [row for row in self._assignments.values() if row is not None]
        released = [id_ for id_, row in self._assignments.items() if not row]
        taken = effects.Effects(
            changes=db_api.Changes.of([*self._rows, *given], released),
            at_once=[m for m in self._messages if not m.after_commit],
            after_commit=[m for m in self._messages if m.after_commit],
            admissions=self.admissions,
            withdrawn=self.withdrawn,
        )
        self._clear()
        return taken


class Link:
    """Sends events to the scheduling core; carries out its instructions."""

    def __init__(
        self,
        core: core_state.PoolState,
        clock: Clock,
        counts: conductor_counts.Counts,
        waits: expected_waits.ExpectedWaits,
    ) -> None:
        self._core = core
        self._waits = waits
        # The core begins to count skips at the first call.
        core.take_skips()
        self._clock = clock
        self._counts = counts
        self.handlers: dict[type, Handler] = {}
        self.wake_at: float | None = None

    def tell(self, *happened: events.Event) -> None:
        """Send events to the core, and carry out the resulting instructions.

        Only :meth:`decide` assigns slots to waiting sessions.
        """
        orders = self._core.apply(happened, self._clock.now)
        self._waits.hear(happened, self._clock.now)
        self._carry_out(orders)

    def decide(self) -> Mapping[int, int]:
        """Let the core assign slots to waiting sessions.

        :returns: how often jobs have been skipped, by job id.
        """
        happened: tuple[events.Event, ...] = ()
        if self.wake_at is not None and self._clock.now >= self.wake_at:
            self.wake_at = None
            happened = (events.Wake(),)
        self._carry_out(self._core.step(happened, self._clock.now))
        return self._core.take_skips()

    def _carry_out(
        self, instructions: Sequence[core_instructions.Instruction]
    ) -> None:
        self._waits.obey(instructions, self._clock.now)
        for instruction in instructions:
            self.handle(instruction)

    def handle(self, item: object) -> None:
        """Handle an input or an instruction.

        A transition that a session's life cycle forbids is logged and ignored.
        """
        try:
            self.handlers[type(item)](item)
        except WrongMove as error:
            LOG.error("%s: %s is ignored", error, type(item).__name__)
            self._counts.reconciled["wrong_move"] += 1


@dataclasses.dataclass(eq=False, repr=False)
class Room:
    """The base of all rooms."""

    handler_names: ClassVar[Mapping[type, str]] = {}

    _clock: Clock
    _link: Link
    _core: core_state.PoolState
    _outbox: Outbox
    _outages: Outages
    _settings: admission.PoolLimits
    _counts: conductor_counts.Counts

    def __init_subclass__(cls) -> None:
        cls.handler_names = {
            kind: name
            for name, method in vars(cls).items()
            for kind in getattr(method, "kinds", ())
        }

    @property
    def handlers(self) -> dict[type, Handler]:
        """The handlers of inputs and instructions in this room, by class."""
        return {
            kind: getattr(self, name)
            for kind, name in self.handler_names.items()
        }

    def _answer_change(
        self,
        future: concurrent.futures.Future[Any],
        apply: Callable[[], None],
    ) -> None:
        """Make the requested change, and answer the request."""
        if self._outages.database_failing:
            refused = admission.not_recordable()
            self._outbox.send(effects.EarlyReply(future, refused))
            return
        with self._answering(future):
            apply()

    @contextlib.contextmanager
    def _answering(
        self, future: concurrent.futures.Future[Any]
    ) -> Iterator[None]:
        """Answer a request with None, or with the error of the block."""
        answer = None
        try:
            yield
        except (admission.Rejected, exception.FpgapoolException) as error:
            LOG.info("Change refused: %s", error.code)
            answer = error
        # An error also waits for the commit: a row that caused it may not be
        # recorded yet, and the client may look for it.
        self._outbox.send(effects.Reply(future, answer))
