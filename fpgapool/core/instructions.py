# SPDX-License-Identifier: Apache-2.0

"""Instructions of the core: what the conductor must do.

An instruction about a slot carries the generation of its assignment. The job
of a group's member has a negative id; :meth:`.PoolState.hold` returns its
group.
"""

import typing

from fpgapool.core import model


@model.value
class Program:
    """Program a slot with the accelerator of the job that gets it."""

    slot_id: model.SlotId
    job_id: model.JobId
    generation: int


@model.value
class Test:
    """Test a slot with this accelerator; the test holds the slot."""

    slot_id: model.SlotId
    accelerator: str
    generation: int


@model.value
class Grant:
    """The slot is ready: send its endpoints to the job's client.

    If a group holds it, the slot serves the group's clients from now on.
    """

    slot_id: model.SlotId
    job_id: model.JobId
    generation: int


@model.value
class Reject:
    """The job leaves the queue without a slot."""

    job_id: model.JobId
    code: str
    message: str


@model.value
class Requeue:
    """The job lost a slot that it had not used yet, and waits again."""

    job_id: model.JobId
    generation_lost: int
    reason: str


@model.value
class Revoke:
    """Take the slot from its holder, which was cancelled or must leave.

    A group's member leaves when its task has ended.

    The slot stays assigned until its release is reported or its host is lost.
    """

    slot_id: model.SlotId
    job_id: model.JobId
    generation: int
    reason: str


@model.value
class Yield:
    """Take the slot from a stateless holder, because other jobs wait for it.

    The slot stays assigned as after :class:`Revoke`; then the conductor
    submits the job again.

    :param reason: ``YIELDED``: the holder exceeded its claim; ``PREEMPTED``:
        another job takes precedence.
    """

    slot_id: model.SlotId
    job_id: model.JobId
    generation: int
    reason: str


@model.value
class Drained:
    """A device that is being drained has no holders left."""

    device_id: model.DeviceId


@model.value
class Reserve:
    """A slot is now reserved for this instance; None: it is not reserved."""

    slot_id: model.SlotId
    instance_id: str | None


@model.value
class Resize:
    """A group's size or state has changed; record it.

    :param state: one of :data:`fpgapool.vocabulary.states.GROUP_MOVES`; the
        group is forgotten when it is ``GROUP_DELETED``.
    """

    group_id: model.GroupId
    wanted: int
    state: str


@model.value
class RejectGroup:
    """A new group, or a change of a group, is refused; nothing has changed.

    :param earliest_s: the earliest deadline that could be met; None: unknown,
        or the goal is not a deadline.
    :param ends: whether the group is gone: it waited for its first slots, and
        does not get them.
    """

    group_id: model.GroupId
    code: str
    message: str
    earliest_s: float | None = None
    ends: bool = False


@model.value
class GoalReached:
    """All tasks of a group's goal have ended; the goal is removed."""

    group_id: model.GroupId


@model.value
class WakeAt:
    """Send :class:`~fpgapool.core.events.Wake` at this time or later.

    It replaces the previous request.
    """

    time_s: float


#: Instructions that occur only if the conductor sends group events.
GroupInstruction: typing.TypeAlias = Resize | RejectGroup | GoalReached

Instruction: typing.TypeAlias = (
    Program
    | Test
    | Grant
    | Reject
    | Requeue
    | Revoke
    | Yield
    | Drained
    | Reserve
    | WakeAt
    | GroupInstruction
)


class Outcome:
    """The result of a step so far.

    :ivar pass_due: whether a scheduling pass is due because a waiting job may
        get a slot.
    :ivar is_quiet: whether all events since the last step only changed phases,
        so that nothing else changes.
    """

    __slots__ = ("is_quiet", "output", "pass_due")

    def __init__(self) -> None:
        self.output: list[Instruction] = []
        self.pass_due = False
        self.is_quiet = True
