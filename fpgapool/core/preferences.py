# SPDX-License-Identifier: Apache-2.0

"""What a strategy needs from the pool, and what it decides.

The pool builds its indexes according to these preferences. The methods with
which a strategy chooses are in :mod:`fpgapool.core.strategy`.
"""

import abc
import collections.abc
import dataclasses
import math
import typing

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core.queues import claims as recent_claims
from fpgapool.core.queues import kinds
from fpgapool.core.queues import sharing
from fpgapool.core.topology import loads as pipe_loads


@model.value
class Choice:
    """One decision of a pass: this job gets this slot."""

    job_id: model.JobId
    slot_id: model.SlotId


class Contender(typing.NamedTuple):
    """A job that competes with others for the same slot or core.

    :param chunks: the remaining work in chunks, or in any other unit that is
        the same for all contenders.
    :param slot_s: the time that this work takes in the slot.
    :param cpu_s: the time that it takes on a CPU core alone; infinite: the job
        needs a slot.
    :param attach_s: the time until the slot can start computing; a job that
        has the slot needs none.
    """

    job: model.Job
    chunks: float
    slot_s: float
    cpu_s: float = math.inf
    attach_s: float = 0.0

    @property
    def deadline_s(self) -> float:
        """The job's deadline; infinite if it has none."""
        deadline_s = self.job.deadline_s
        return math.inf if deadline_s is None else deadline_s


@dataclasses.dataclass(frozen=True, slots=True)
class IdleIndexes:
    """The indexes over idle slots that a strategy needs.

    :param by_busy: hosts with the fewest busy slots come first; otherwise
        hosts come in the order of their ids.
    :param by_slot: slots can be selected by rank, which random choices need.
    """

    by_busy: bool = False
    by_programmed: bool = False
    by_slot: bool = False


class Preferences(abc.ABC):
    """What a strategy needs from the pool, and how it orders jobs."""

    #: The indexes that the view keeps for it.
    idle_indexes: IdleIndexes = IdleIndexes()
    #: Whether the pool indexes jobs by host, and tracks which jobs wait for a
    #: slot on their own host.
    wants_hosts: bool = True
    #: Whether the pool also indexes jobs that may go to any host by their
    #: accelerators; requires ``wants_hosts``.
    wants_accelerators: bool = False
    #: Whether it considers the applications of jobs, and jobs by accelerator:
    #: the pool then keeps
    #: :class:`~fpgapool.core.queues.applications.AffineJobs`.
    wants_affinity: bool = False
    #: Whether it estimates rates: the view then keeps the loads of pipes and
    #: the index of :meth:`make_kinds`, and
    #: :class:`~fpgapool.core.events.Progress` sets rates.
    wants_rates: bool = False
    #: Whether the view keeps the index of :meth:`make_kinds` in any case.
    wants_kinds: bool = False
    #: A job passed over this often may go to other hosts; None: skips are not
    #: counted.
    skip_limit: int | None = None
    #: How projects share the pool: the view then keeps their jobs in separate
    #: lanes where needed. None: projects are ignored.
    shares: sharing.ShareOptions | None = None
    #: Whether jobs with deadlines may preempt others at chunk borders.
    deadlines_preempt: bool = False
    #: A job that has waited this long is urgent: it goes first, by arrival;
    #: None: jobs never become urgent.
    max_wait_s: float | None = None
    #: The latest claims, to which the pool adds those of new sessions; None:
    #: the strategy does not learn from them.
    claims: recent_claims.RecentClaims | None = None
    #: Whether a host accepts more remote jobs than :meth:`remote_limit` while
    #: its own jobs need fewer slots; requires ``claims``.
    reserve_gives_way: bool = False

    @abc.abstractmethod
    def key(self, job: model.Job) -> ordered.Key:
        """Return the job's place in the queue: smaller keys come first.

        A job's key never changes; its last element is the job's id.
        """

    def most_urgent(
        self, contenders: collections.abc.Sequence[Contender], now: float
    ) -> Contender:
        """Return the contender that gets the slot or core.

        Unlike :meth:`key`, the choice may depend on time and chance. The
        default is the contender with the smallest key.

        :param contenders: at least one, in the order of their ids.
        """
        return min(contenders, key=lambda each: self.key(each.job))

    def patience_s(self, job: model.Job) -> float | None:
        """Return how long a job waits for its own host; None: forever."""
        return None

    def make_kinds(self, loads: pipe_loads.Loads) -> kinds.Kinds:
        """Make the index of waiting jobs, if the strategy wants one."""
        raise NotImplementedError

    def remote_limit(self, slot_count: int) -> int | None:
        """Return how many remote jobs a host may have; None: any number."""
        return None
