# SPDX-License-Identifier: Apache-2.0

"""Records of hosts, slots and assignments that change in place."""

import collections

from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core import ordered
from fpgapool.core.queues import queued

_SELF_TEST = model.HolderKind.SELF_TEST

#: The program tag of slots that need no programming time. No accelerator has
#: this name.
INSTANT = ""

#: (shape, whether the host accepts another remote job)
OpenBucket = tuple[str, bool]
#: (shape, accelerator or INSTANT)
ProgrammedBucket = tuple[str, str]
Bucket = OpenBucket | ProgrammedBucket


def kept_shape(shape: str) -> str:
    """Return the shape of slots while they are kept for reservations."""
    # No shape reported by a host contains this character.
    return shape + "\0"


def shown_shapes(accelerator: model.Accelerator) -> model.Shapes:
    """Return the slot shapes that an accelerator fits, kept ones included."""
    return accelerator.shapes | frozenset(map(kept_shape, accelerator.shapes))


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Slot:
    """A slot of a known host.

    :ivar shape: the shape that jobs see; a special one while the slot is kept.
    :ivar works: whether its host is up, its device healthy, and neither the
        slot nor the device is out of use.
    :ivar is_usable: whether it works and its device is not barred.
    :ivar kept: whether it is kept for reservations, so that only jobs that can
        move may have it.
    :ivar position: its place in ``index`` order.
    """

    __slots__ = (
        "bytes_per_s",
        "device_slots",
        "host",
        "id",
        "is_usable",
        "kept",
        "number",
        "position",
        "programmed",
        "reserved_for",
        "shape",
        "spec",
        "up",
        "works",
    )

    def __init__(
        self, host: "Host", device: model.DeviceSpec, spec: model.SlotSpec
    ) -> None:
        self.host = host
        self.spec = spec
        self.device_slots = len(device.slots)
        self.bytes_per_s = device.dma_bytes_per_s / self.device_slots
        self.id = spec.id
        self.number = spec.number
        self.shape = spec.shape
        self.position: ordered.Key = (host.id, spec.number, spec.id)
        self.programmed = spec.programmed
        self.works = self.is_usable = self.up = False
        self.reserved_for: str | None = None
        self.kept = False

    def mark(self, reserved_for: str | None, kept: bool) -> None:
        """Set its instance, and whether it is kept for reservations."""
        self.reserved_for = reserved_for
        self.kept = kept
        self.shape = kept_shape(self.spec.shape) if kept else self.spec.shape

    def program_tag(self) -> str:
        """Return the accelerator that it can run without being programmed."""
        if self.spec.programming_time_s <= 0:
            return INSTANT
        # Unknown contents: the tag matches no accelerator.
        return self.programmed or "\0"

    def starts_at_once(self, accelerator: str) -> bool:
        """Return whether it can run an accelerator without programming."""
        return (
            self.spec.programming_time_s <= 0 or self.programmed == accelerator
        )


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Hold:
    """The record of an assignment; see :class:`~.model.Assignment`.

    :ivar record: the job that has the slot; None: a self-test has it.
    :ivar group_id: the group that has it; None: another holder has it.
    :ivar charged_at_s: the time up to which its project was charged.
    :ivar paid_bytes: the unused rest of the claim, which was charged in
        advance.
    :ivar revoked: why the core is revoking it; empty if it is not.
    """

    __slots__ = (
        "accelerator",
        "charged_at_s",
        "generation",
        "group_id",
        "local",
        "paid_bytes",
        "phase",
        "record",
        "revoked",
        "slot",
        "slot_id",
        "started_s",
    )

    def __init__(
        self,
        slot_id: model.SlotId,
        record: queued.JobRecord | None,
        accelerator: str,
        generation: int,
        phase: model.Phase,
        local: bool,
        started_s: float,
        slot: Slot | None,
        paid_bytes: float = 0.0,
    ) -> None:
        self.slot = slot
        self.slot_id = slot_id
        self.record = record
        self.group_id: model.GroupId | None = (
            None if record is None else record.job.group_id
        )
        self.accelerator = accelerator
        self.generation = generation
        self.phase = phase
        self.local = local
        self.started_s = self.charged_at_s = started_s
        self.paid_bytes = paid_bytes
        self.revoked = ""

    @property
    def holder(self) -> model.Holder:
        if self.record is None:
            return model.Holder(_SELF_TEST, self.generation)
        return self.record.job.holder

    def charge(self, now: float) -> float:
        """Return what is due, and count it as charged."""
        due_bytes, paid_bytes = self._costs(now)
        if self.slot is not None:
            self.charged_at_s = now
        self.paid_bytes -= paid_bytes
        return due_bytes

    def due_bytes(self, now: float) -> float:
        """Return its cost since the last charge, beyond the paid claim."""
        return self._costs(now)[0]

    def _costs(self, now: float) -> tuple[float, float]:
        """Return the cost since the last charge: what is due, and paid."""
        if self.slot is None:
            return 0.0, 0.0
        cost_bytes = (now - self.charged_at_s) * self.slot.bytes_per_s
        paid_bytes = min(cost_bytes, self.paid_bytes)
        return cost_bytes - paid_bytes, paid_bytes

    def assignment(self) -> model.Assignment:
        return model.Assignment(
            slot_id=self.slot_id,
            holder=self.holder,
            accelerator=self.accelerator,
            generation=self.generation,
            phase=self.phase,
            local=self.local,
            started_s=self.started_s,
            revoked=bool(self.revoked),
        )


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Host:
    """A known host.

    :ivar up_shapes: the number of its slots that are up, by shape.
    :ivar barred_shapes: the number of its slots that would be up if their
        devices were not barred, by shape.
    :ivar remote_count: the number of its slots assigned to remote jobs.
    :ivar remote_limit: the number that it accepts; None: any number.
    :ivar least_limit: the number that it accepts in any case; None: any.
    :ivar is_listed: whether its entries in the indexes are up to date.
    """

    __slots__ = (
        "barred_shapes",
        "busy_count",
        "by_busy",
        "entries",
        "id",
        "idle",
        "is_listed",
        "least_limit",
        "remote_count",
        "remote_limit",
        "slots",
        "spec",
        "up",
        "up_shapes",
    )

    def __init__(self, spec: model.HostSpec, by_busy: bool) -> None:
        self.id = spec.id
        self.spec = spec
        self.by_busy = by_busy
        self.up = False
        self.slots: list[Slot] = []
        self.idle: list[Slot] = []
        self.up_shapes: collections.Counter[str] = collections.Counter()
        self.barred_shapes: collections.Counter[str] = collections.Counter()
        self.busy_count = 0
        self.remote_count = 0
        self.remote_limit: int | None = None
        self.least_limit: int | None = None
        self.is_listed = True
        #: Its key in each index bucket.
        self.entries: dict[Bucket, ordered.Key] = {}

    @property
    def is_open(self) -> bool:
        """Whether it accepts another remote job."""
        limit = self.remote_limit
        return limit is None or self.remote_count < limit

    @property
    def kept_count(self) -> int:
        """The number of slots that it keeps for its own jobs."""
        limit = self.remote_limit
        return 0 if limit is None else max(len(self.slots) - limit, 0)

    @property
    def rank(self) -> ordered.Key:
        return (self.busy_count if self.by_busy else 0, self.id)
