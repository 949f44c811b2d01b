# SPDX-License-Identifier: Apache-2.0

"""What the core wants done.

Reserved names, not used yet: ``Resize``, ``Migrate``, ``Preload``,
``Evict``, ``Lock``, ``Unlock``.
"""

import typing

from fpgapool.core import model
from fpgapool.core import values


@values.value
class Program:
    """Give a slot to a job: make it ready with the job's accelerator."""

    slot_id: model.SlotId
    job_id: model.JobId
    accelerator: str
    generation: int


@values.value
class Grant:
    """The slot is ready: tell the job's client where it is."""

    slot_id: model.SlotId
    job_id: model.JobId
    generation: int


@values.value
class Reject:
    """The job leaves the queue without a slot.

    :param code: of :mod:`fpgapool.vocabulary.codes`.
    :param message: the same for people.
    """

    job_id: model.JobId
    code: str
    message: str


@values.value
class Requeue:
    """The job lost its slot before it was used, and waits again."""

    job_id: model.JobId
    generation_lost: int
    reason: str


@values.value
class Revoke:
    """Take the slot from its holder, which was cancelled or must leave.

    The slot stays taken until its release is reported or its host is lost.
    """

    slot_id: model.SlotId
    job_id: model.JobId
    generation: int
    reason: str


@values.value
class Yield:
    """Take the slot from a holder that can go on in another one later.

    It has sent more than it claimed while others wait. The slot stays taken
    as after :class:`Revoke`; its job is to be submitted again then.
    """

    slot_id: model.SlotId
    job_id: model.JobId
    generation: int


@values.value
class Drained:
    """Nobody has a slot of a device any more that was to be drained."""

    device_id: model.DeviceId


@values.value
class Reserve:
    """A slot is reserved for an instance from now on; None: for nobody."""

    slot_id: model.SlotId
    instance_id: str | None


@values.value
class WakeAt:
    """Send :class:`~fpgapool.core.events.Wake` at this time or later.

    A later one replaces an earlier one.
    """

    time_s: float


Instruction: typing.TypeAlias = (
    Program
    | Grant
    | Reject
    | Requeue
    | Revoke
    | Yield
    | Drained
    | Reserve
    | WakeAt
)


class Outcome:
    """What a step has come to so far.

    :ivar output: what follows from its events.
    :ivar pass_due: whether a waiting job may have a slot now.
    """

    __slots__ = ("output", "pass_due")

    def __init__(self) -> None:
        self.output: list[Instruction] = []
        self.pass_due = False
