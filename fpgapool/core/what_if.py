# SPDX-License-Identifier: Apache-2.0

"""What the pool would do with a job, found out on a copy of its state."""

import io
import pickle
import typing

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state
from fpgapool.core import values

# Values that never change, which a copy shares with its original.
_SHARED = frozenset(
    {
        model.Accelerator,
        model.DeviceSpec,
        model.Group,
        model.HostSpec,
        model.Job,
        model.SlotSpec,
    }
)


class NotCopyable(Exception):
    """The state of the pool, with its strategy, cannot be copied."""


@values.value
class Answer:
    """What would become of a job.

    :param status: NEVER: the job would be rejected, for the one reason.
    :param position: the number of jobs before it; None: it would not wait.
    :param message: why it would be rejected, for people.
    """

    status: model.Status
    position: int | None = None
    message: str = ""


class Snapshot:
    """A copy of a pool's state at one moment.

    It takes time in proportion to the slots and waiting jobs: about 0.3 s for
    10,000 slots and as many waiting jobs. Another thread may use it while the
    pool goes on.

    :raises NotCopyable: if the strategy has something that cannot be copied,
        such as a lock or a local function.
    """

    def __init__(self, pool: state.PoolState) -> None:
        self._now = pool.view.now
        self._data = io.BytesIO()
        pickler = _Pickler(self._data)
        try:
            pickler.dump(pool)
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            raise NotCopyable(str(error)) from error
        self._shared = pickler.shared

    def ask(self, job: model.Job) -> Answer:
        """Submit a job to the copy, and make one pass there.

        It takes about as long as the copy. One call for each snapshot.

        :param job: its id must be new.
        """
        self._data.seek(0)
        pool: state.PoolState = _Unpickler(self._data, self._shared).load()
        done = pool.step([events.JobSubmitted(job)], self._now)
        for one in done:
            if isinstance(one, instructions.Reject) and one.job_id == job.id:
                refused = model.Status(model.Verdict.NEVER, (one.code,))
                return Answer(refused, message=one.message)
        status = pool.status(job.id)
        if status.verdict is model.Verdict.NOT_NOW:
            return Answer(status, pool.queue_position(job.id))
        return Answer(status)


# Only this module reads what it has written, and only in memory.


class _Pickler(pickle.Pickler):
    """Writes all but the shared values, which it collects."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, pickle.HIGHEST_PROTOCOL)
        self.shared: list[object] = []

    def persistent_id(self, obj: object) -> int | None:
        if type(obj) not in _SHARED:
            return None
        self.shared.append(obj)
        return len(self.shared) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, shared: list[object]) -> None:
        super().__init__(stream)
        self._shared = shared

    def persistent_load(self, pid: typing.Any) -> object:
        return self._shared[pid]
