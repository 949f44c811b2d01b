# SPDX-License-Identifier: Apache-2.0

"""Predicts what the pool would do with a job, on a copy of its state."""

import dataclasses
import pickle
import typing

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state
from fpgapool.core.queues import share_tree
from fpgapool.core.queues import sharing

#: Maximum number of slots and waiting jobs of a pool that is copied, because
#: it pauses during the copy.
MOST = 40_000

# Immutable values that a copy shares with its original.
_SHARED = frozenset(
    {
        model.Accelerator,
        model.DeviceSpec,
        model.Group,
        model.HostSpec,
        model.Job,
        model.SlotSpec,
        share_tree.Places,
        sharing.ShareOptions,
    }
)


class NotCopyable(Exception):
    """The pool's state, including its strategy, cannot be copied."""


@model.value
class Prediction:
    """What would happen to a job.

    :param status: its status; NEVER: the job would be rejected, with this
        reason.
    :param position: the number of jobs before it; None: it would not wait.
    :param ends_by_s: the start of a reservation before which it would have to
        end to get a slot now, by its claim; None: that does not matter.
    """

    status: model.Status
    position: int | None = None
    message: str = ""
    ends_by_s: float | None = None


class Snapshot:
    """A copy of a pool's state at one moment.

    Copying takes time in proportion to the slots and waiting jobs: about 0.2 s
    for 10,000 slots and as many waiting jobs. Another thread may use the copy
    while the pool keeps working.

    :raises NotCopyable: if there are more than :data:`MOST` slots and jobs, or
        if the strategy contains something that cannot be copied, such as a
        lock or a local function.
    """

    def __init__(self, pool: state.PoolState) -> None:
        count = len(pool.view.slots.slots) + pool.waiting_count
        if count > MOST:
            raise NotCopyable(
                f"the pool has {count} slots and waiting sessions; dry runs "
                f"support at most {MOST}"
            )
        self._now = pool.view.now
        data = _Bytes()
        pickler = _Pickler(data)
        try:
            pickler.dump(pool)
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            raise NotCopyable(str(error)) from error
        self._data = b"".join(data.parts)
        self._shared = pickler.shared

    def ask(self, job: model.Job) -> Prediction:
        """Submit a job to the copy, and run one pass.

        All jobs of its set are supposed to be like it.

        It takes about as long as making the copy.
        """
        unpickler = _Unpickler(_Bytes(self._data), self._shared)
        pool: state.PoolState = unpickler.load()
        done = pool.step(_submitted(job), self._now)
        for one in done:
            if isinstance(one, instructions.Reject) and one.job_id == job.id:
                refused = model.Status(model.Verdict.NEVER, (one.code,))
                return Prediction(refused, message=one.message)
        status = pool.status(job.id)
        if status.verdict is model.Verdict.NOT_NOW:
            return Prediction(
                status,
                pool.queue_position(job.id),
                ends_by_s=_ends_by_s(pool, job),
            )
        return Prediction(status)


def _ends_by_s(pool: state.PoolState, job: model.Job) -> float | None:
    table = pool.view.slots
    return pool.view.reservations.promises.closes_at_s(
        job,
        (
            slot
            for slot_id, slot in table.slots.items()
            if slot_id not in table.assignments
        ),
    )


def _submitted(job: model.Job) -> list[events.JobSubmitted]:
    if job.together is None:
        return [events.JobSubmitted(job)]
    # No set that is being opened has this name.
    together = job.together._replace(set_id="\0")
    return [
        events.JobSubmitted(
            dataclasses.replace(job, id=job.id + n, together=together)
        )
        for n in range(together.size)
    ]


# Safe to unpickle: this module wrote it, and it never left memory.


class _Bytes:
    """A file in memory that is written or read once."""

    def __init__(self, data: bytes = b"") -> None:
        self.parts: list[bytes] = []
        self._data = data
        self._position = 0

    def write(self, data: bytes, /) -> int:
        self.parts.append(bytes(data))
        return len(data)

    def read(self, size: int, /) -> bytes:
        start = self._position
        self._position = min(start + size, len(self._data))
        return self._data[start : self._position]

    def readline(self) -> bytes:
        end = self._data.find(b"\n", self._position) + 1
        return self.read((end or len(self._data)) - self._position)


class _Pickler(pickle.Pickler):
    """Pickles all but the shared values, which it collects."""

    def __init__(self, stream: _Bytes) -> None:
        super().__init__(stream, pickle.HIGHEST_PROTOCOL)
        self.shared: list[object] = []
        self.dispatch_table = dict.fromkeys(_SHARED, self._share)

    def _share(self, value: object) -> tuple[type, tuple[int]]:
        self.shared.append(value)
        return _Shared, (len(self.shared) - 1,)


class _Shared:
    """Placeholder for a shared value."""


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: _Bytes, shared: list[object]) -> None:
        super().__init__(stream)
        self._shared = shared

    def find_class(self, module: str, name: str, /) -> typing.Any:
        if name == _Shared.__name__:
            return self._shared.__getitem__
        return super().find_class(module, name)
