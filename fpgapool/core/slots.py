# SPDX-License-Identifier: Apache-2.0

"""A host that is known, its slots, and who has one."""

import collections

from fpgapool.core import model
from fpgapool.core import ordered

#: Stands for "can hold any accelerator at once" where slots are kept apart
#: by what is programmed; no accelerator has this name.
INSTANT = ""

#: (shape, whether the host takes another remote job)
OpenBucket = tuple[str, bool]
#: (shape, accelerator or INSTANT)
ProgrammedBucket = tuple[str, str]
Bucket = OpenBucket | ProgrammedBucket


def kept_shape(shape: str) -> str:
    """The shape that slots have while they are kept for reservations."""
    # No shape that a host reports has this character.
    return shape + "\0"


def shown_shapes(accelerator: model.Accelerator) -> model.Shapes:
    """The shapes of slots that an accelerator fits, kept ones included."""
    return accelerator.shapes | frozenset(map(kept_shape, accelerator.shapes))


class Slot:
    """A slot of a host that is known.

    :ivar shape: what jobs see: another one while it is kept.
    :ivar works: whether its host is up, its device healthy, and neither it
        nor its device was taken out.
    :ivar is_usable: whether it works and its device is not barred.
    :ivar up: whether it is usable and reserved for nobody.
    :ivar reserved_for: the instance whose jobs alone may have it.
    :ivar kept: whether only jobs may have it that can be moved.
    :ivar programmed: the accelerator that it holds, as far as known.
    :ivar position: its place in ``index`` order.
    :ivar bytes_per_s: its even share of what its device carries.
    """

    __slots__ = (
        "bytes_per_s",
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
        self.bytes_per_s = device.dma_bytes_per_s / len(device.slots)
        self.id = spec.id
        self.number = spec.number
        self.shape = spec.shape
        self.position: ordered.Key = (host.id, spec.number, spec.id)
        self.programmed = spec.programmed
        self.works = self.is_usable = self.up = False
        self.reserved_for: str | None = None
        self.kept = False

    def mark(self, reserved_for: str | None, kept: bool) -> None:
        """Say whom it is reserved for, and whether it is kept."""
        self.reserved_for = reserved_for
        self.kept = kept
        self.shape = kept_shape(self.spec.shape) if kept else self.spec.shape

    def program_tag(self) -> str:
        """What it can hold without being programmed, for the indexes."""
        if self.spec.programming_time_s <= 0:
            return INSTANT
        # A slot of unknown contents gets a tag that no accelerator has.
        return self.programmed or "\0"

    def starts_at_once(self, accelerator: str) -> bool:
        """Whether it needs no time to be programmed with it."""
        return (
            self.spec.programming_time_s <= 0 or self.programmed == accelerator
        )


class Hold:
    """What a :class:`~fpgapool.core.model.Assignment` is made of.

    What changes with every step of a session is changed in place.

    :ivar slot: the slot, while it is known.
    :ivar charged_at_s: until when its project was charged for it.
    :ivar paid_bytes: what is left of the claim that was charged at once.
    :ivar revoked: why it is being taken back; empty while it is not.
    """

    __slots__ = (
        "accelerator",
        "charged_at_s",
        "generation",
        "job_id",
        "local",
        "paid_bytes",
        "phase",
        "revoked",
        "slot",
        "slot_id",
        "started_s",
    )

    def __init__(
        self,
        slot_id: model.SlotId,
        job_id: model.JobId,
        accelerator: str,
        generation: int,
        phase: model.Phase,
        local: bool,
        started_s: float,
        slot: Slot | None,
        paid_bytes: float,
    ) -> None:
        self.slot = slot
        self.slot_id = slot_id
        self.job_id = job_id
        self.accelerator = accelerator
        self.generation = generation
        self.phase = phase
        self.local = local
        self.started_s = self.charged_at_s = started_s
        self.paid_bytes = paid_bytes
        self.revoked = ""

    def charge(self, now: float) -> float:
        """What it costs since it was charged last, beyond what was paid."""
        if self.slot is None:
            return 0.0
        cost_bytes = (now - self.charged_at_s) * self.slot.bytes_per_s
        self.charged_at_s = now
        paid_bytes = min(cost_bytes, self.paid_bytes)
        self.paid_bytes -= paid_bytes
        return cost_bytes - paid_bytes

    def assignment(self) -> model.Assignment:
        """What it is now, as a value."""
        return model.Assignment(
            slot_id=self.slot_id,
            job_id=self.job_id,
            accelerator=self.accelerator,
            generation=self.generation,
            phase=self.phase,
            local=self.local,
            started_s=self.started_s,
            revoked=bool(self.revoked),
        )


class Host:
    """A host that is known.

    :ivar by_busy: whether a host with fewer busy slots comes before it.
    :ivar idle: its idle slots, lowest number first.
    :ivar up_shapes: how many of its slots are up, by shape.
    :ivar barred_shapes: how many would be, but for an operator.
    :ivar busy_count: its slots that are taken.
    :ivar remote_count: its slots that jobs of elsewhere have.
    :ivar remote_limit: how many of those it may have; None: any number.
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
        self.is_listed = True
        #: The index buckets that it is in, with its key in each.
        self.entries: dict[Bucket, ordered.Key] = {}

    @property
    def is_open(self) -> bool:
        """Whether it takes another remote job."""
        limit = self.remote_limit
        return limit is None or self.remote_count < limit

    @property
    def rank(self) -> ordered.Key:
        """Its place among the hosts."""
        return (self.busy_count if self.by_busy else 0, self.id)
