# SPDX-License-Identifier: Apache-2.0

"""What a strategy needs of the pool, and how it answers.

The pool keeps its jobs and slots by this; it need not know how a strategy
chooses (:mod:`fpgapool.core.strategy`).
"""

import abc
import dataclasses

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import sharing
from fpgapool.core import values


@values.value
class Choice:
    """One decision of a pass: this job gets this slot."""

    job_id: model.JobId
    slot_id: model.SlotId


@dataclasses.dataclass(frozen=True, slots=True)
class IdleIndexes:
    """Which indexes over idle slots a strategy needs.

    :param by_busy: hosts with the fewest busy slots come first, else the
        hosts come in the order of their ids.
    :param by_programmed: apart by what is programmed.
    :param by_slot: slots can be counted off, as a random choice needs.
    """

    by_busy: bool = False
    by_programmed: bool = False
    by_slot: bool = False


class Preferences(abc.ABC):
    """What the pool must keep for a strategy, and how it orders jobs."""

    #: The indexes that the view keeps for it.
    idle_indexes: IdleIndexes = IdleIndexes()
    #: Whether it asks for the waiting jobs of a host, and which jobs wait for
    #: their own; if not, they need not be kept apart.
    wants_hosts: bool = True
    #: Whether it estimates rates: the view then keeps the loads of pipes and
    #: the waiting jobs as vectors, and :class:`~fpgapool.core.events.Progress`
    #: is of use.
    wants_rates: bool = False
    #: If jobs and idle slots are left by a pass, another one follows after so
    #: many seconds: what it looks at changes by itself. None: it does not.
    look_again_s: float | None = None
    #: A job passed over so often may leave its host; None: not by skips.
    skip_limit: int | None = None
    #: How projects share the pool: the view then keeps their jobs apart where
    #: that matters. None: whose a job is does not matter.
    shares: sharing.Options | None = None
    #: A job that has waited for so long is kept apart, too, and ordered by its
    #: arrival; None: none is.
    max_wait_s: float | None = None

    @abc.abstractmethod
    def key(self, job: model.Job) -> ordered.Key:
        """The job's place in the queue: smaller keys come first.

        The same for the same job always; its last member is the job's id.
        """

    def patience_s(self, job: model.Job) -> float | None:
        """How long a job waits for its own host; None: for ever."""
        return None

    def weight(self, job: model.Job) -> float:
        """What the job's column of weights says, if it wants rates."""
        return 0.0

    def remote_limit(self, slot_count: int) -> int | None:
        """How many remote jobs a host with so many slots may have.

        None: any number.
        """
        return None
