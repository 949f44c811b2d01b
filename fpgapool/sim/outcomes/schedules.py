# SPDX-License-Identifier: Apache-2.0

"""Results of jobs, as scenario files and result files store them.

All sizes are in bytes, times in seconds.
"""

from __future__ import annotations

import typing

import msgspec

from fpgapool.core.rules import deadlines

State: typing.TypeAlias = typing.Literal["done", "late", "killed"]


def state_at_end(now: float, deadline_s: float | None) -> State:
    """Return the state of a job that ends now."""
    if deadline_s is None or now <= deadline_s + deadlines.TOLERANCE_S:
        return "done"
    return "late"


class OnCore(msgspec.Struct, frozen=True):
    """What a job used on a host with cores.

    :ivar host: the host of its core; None: it had none.
    :ivar slot_s: time with slots, including attaching.
    """

    host: int | None
    slot_s: float
    done_bytes: float


class InContainer(msgspec.Struct, frozen=True):
    """What the tasks of a container used on its host.

    :ivar slot_s: time of slots, including programming.
    :ivar reprogrammings: how often a slot was programmed for one of them.
    """

    slot_s: float
    reprogrammings: int


class Stay(msgspec.Struct, frozen=True, omit_defaults=True):
    """A time in a slot that the job then had to leave or lost.

    :ivar done_bytes: input that was computed there.
    :ivar lost: whether the slot's host was lost; otherwise another job got the
        slot.
    """

    host: int
    slot: int
    start_s: float
    finish_s: float
    done_bytes: int
    lost: bool = False


class Stage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A stage of a chain.

    :ivar start_s: since when the slot with which it ended was its slot.
    :ivar stays: its times in slots until then, one for each time that the
        chain was interrupted. In each of them the stage before it, too, was in
        its slot of the same place in this list.
    """

    accelerator: str
    host: int
    slot: int
    start_s: float
    stays: tuple[Stay, ...] = ()


class JobOutcome(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The result of a job.

    :ivar start_s: when its last slot or its core started to work for it; if
        neither did, when it ended.
    :ivar host: the host of its last slot; None: it had no slot.
    :ivar slot: number of the slot on this host.
    :ivar local: whether it ended on its own host.
    :ivar state: ``late``: it ended after its deadline; None: it has no
        deadline, and there are no cores.
    :ivar core: what it used on a host with cores; None: there are none.
    :ivar container: what its tasks used; None: there are no containers. The
        job starts when it gets its host. It has no ``slot``, because it shares
        the host's slots.
    :ivar interruptions: how often the host of its slot was lost.
    :ivar preemptions: how often it had to leave its slot to another job.
    :ivar stays: the slots that it had to leave or lost, if there are no cores;
        of a chain, those of its first stage until a stage had to leave.
    :ivar stages: those of a chain, in order.
    :ivar energy_j: energy that it added to that of idle devices and hosts;
        None: the scenario has no power values, or it has not been computed
        yet.
    """

    id: int
    start_s: float
    finish_s: float
    host: int | None
    slot: int | None
    local: bool
    state: State | None = None
    core: OnCore | None = None
    preemptions: int = 0
    stays: tuple[Stay, ...] = ()
    energy_j: float | None = None
    container: InContainer | None = None
    interruptions: int = 0
    stages: tuple[Stage, ...] = ()

    @property
    def worked_s(self) -> float:
        """Return how long a slot, or a core, worked for it."""
        before_s = sum(one.finish_s - one.start_s for one in self.stays)
        return self.finish_s - self.start_s + before_s

    def local_bytes(self, host: int | None, size_bytes: float) -> float:
        """Return how much input it computed on its own host."""
        if self.local:
            return size_bytes - sum(
                one.done_bytes for one in self.stays if one.host != host
            )
        return sum(one.done_bytes for one in self.stays if one.host == host)


class Outcome(msgspec.Struct, frozen=True):
    """The results of all jobs under a strategy.

    :ivar metrics: by name: ``act_s``, ``tct95_s``, ``sar``, ``dlr`` and
        ``makespan_s``; with deadlines also the fields of ``metrics.Service``,
        with containers those of ``metrics.Packing``.
    """

    jobs: list[JobOutcome]
    metrics: dict[str, float | None]
