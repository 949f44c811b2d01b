# SPDX-License-Identifier: Apache-2.0

"""Results of jobs, as scenario files and files of results write them.

All sizes are in bytes, times in seconds.
"""

from __future__ import annotations

import typing

import msgspec

from fpgapool.core import deadlines

State: typing.TypeAlias = typing.Literal["done", "late", "killed"]


def state_at_end(now: float, deadline_s: float | None) -> State:
    """Return the state of a job that ends now."""
    if deadline_s is None or now <= deadline_s + deadlines.TOLERANCE_S:
        return "done"
    return "late"


class OnCore(msgspec.Struct, frozen=True):
    """What a job had on a host with cores.

    :ivar host: the host of its core; None: it had none.
    :ivar slot_s: time with slots, attaching included.
    :ivar done_bytes: input that was computed.
    """

    host: int | None
    slot_s: float
    done_bytes: float


class JobOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a job.

    :ivar start_s: when its slot or core began to work for it; if none did,
        when it ended.
    :ivar host: the host of its last slot; None: it had no slot.
    :ivar slot: number of the slot on this host.
    :ivar local: whether it ran on its own host.
    :ivar state: ``late``: it ended after its deadline; None: it has no
        deadline, and there are no cores.
    :ivar core: None: there are no cores.
    """

    id: int
    start_s: float
    finish_s: float
    host: int | None
    slot: int | None
    local: bool
    state: State | None = None
    core: OnCore | None = None


class Outcome(msgspec.Struct, frozen=True):
    """The results of all jobs under a strategy.

    :ivar metrics: by name: ``act_s``, ``tct95_s``, ``sar``, ``dlr`` and
        ``makespan_s``; with deadlines, the members of
        :class:`fpgapool.sim.metrics.Service`, too.
    """

    jobs: list[JobOutcome]
    metrics: dict[str, float | None]
