# SPDX-License-Identifier: Apache-2.0

"""What an agent has given to a slot's worker.

Whatever a worker says, it decides about nothing else. Workers outlive agents,
so the next agent reads it from a file in the worker's own directory, where the
worker cannot write. The record names the run of the worker: agents of release
1.0.0 write none, and leave the one of an earlier worker there.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.agent.slots import orders
from fpgapool.agent.slots import slot
from fpgapool.protocol import messages
from fpgapool.vocabulary import shapes

LOG = logging.getLogger(__name__)

# Each record overwrites the last one in place, so that there always is one.
_FILE_BYTES = 4096
_TEXT = shapes.nullable(shapes.text())
_SHAPE = shapes.Members(
    {
        "generation": messages.GENERATION,
        "session_id": _TEXT,
        "project_id": _TEXT,
        "is_member": shapes.flag,
        "run": shapes.text(),
    },
    {"previous_generation": messages.GENERATION, "previous_session_id": _TEXT},
)


@dataclasses.dataclass(frozen=True, slots=True)
class Assigned:
    """The last assignment of a worker's process; by default none.

    :ivar project_id: the only project that the process may serve.
    :ivar is_member: whether a group is the holder.
    :ivar previous_generation: that of the assignment before; 0: there is none.
    """

    generation: int = 0
    session_id: str | None = None
    project_id: str | None = None
    is_member: bool = False
    previous_generation: int = 0
    previous_session_id: str | None = None

    def followed_by(self, order: orders.ToWorker) -> Assigned:
        """Return the assignment of the same process that an order makes."""
        members = order.members
        previous = self.generation, self.session_id
        if self.generation == order.generation:
            previous = self.previous_generation, self.previous_session_id
        return Assigned(
            order.generation,
            str(members["session_id"]),
            str(members["project_id"]),
            bool(members["group_id"]),
            *previous,
        )

    @classmethod
    def found_in(cls, status: slot.WorkerStatus) -> Assigned:
        """Believe a worker whose assignment an older agent did not record."""
        result = status.last_result
        is_last = result and result.generation == status.seen_generation
        return cls(
            status.seen_generation,
            result.session_id if result and is_last else status.session_id,
            status.project_id or status.last_project_id,
            status.is_member or status.was_member,
        )

    def may_serve(self, order: orders.ToWorker) -> bool:
        """Whether the process may get another assignment."""
        same = self.generation == order.generation
        own = self.project_id in (None, order.members["project_id"])
        return own and (same or not self.is_member)

    def checked(self, status: slot.WorkerStatus) -> slot.WorkerStatus:
        """Return what the agent takes from a status.

        :raises shapes.Invalid: if it contradicts the assignment.
        """
        mine = self.generation, self.session_id
        before = self.previous_generation, self.previous_session_id
        result, previous = status.last_result, status.previous_result
        if (
            status.seen_generation > self.generation
            or (
                status.generation is not None
                and (status.generation, status.session_id, status.project_id)
                != (*mine, self.project_id)
            )
            or _contradicts(result, mine)
            or _contradicts(previous, mine, before)
        ):
            raise shapes.Invalid("status", "is of no assignment of this slot")
        if result is not None and result.generation < self.generation:
            # It was taken before the assignment.
            result = None
        if previous is not None and previous.generation != before[0]:
            # It is of the same assignment, whose file was damaged, or of an
            # older one.
            previous = None
        is_free = status.generation is None
        return dataclasses.replace(
            status,
            last_result=result,
            previous_result=previous,
            last_project_id=self.project_id,
            is_member=self.is_member and not is_free,
            is_stale=status.is_stale or (self.is_member and is_free),
        )

    def save(self, path: str, run: str) -> None:
        """Record it.

        :param run: of the worker; see :func:`.processes.run_of`.
        """
        line = json.dumps({**dataclasses.asdict(self), "run": run}).encode()
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(fd, line.ljust(_FILE_BYTES), 0)
            finally:
                os.close(fd)
        except OSError as error:
            LOG.error("Cannot record an assignment in %s: %s", path, error)


def _contradicts(
    result: objects.SessionResult | None,
    last: tuple[int, str | None],
    *others: tuple[int, str | None],
) -> bool:
    """Whether a result is newer than a worker's last assignment, or names
    another session than one of its assignments.
    """
    if result is None:
        return False
    generation, known = result.generation, dict((last, *others))
    return generation > last[0] or (
        generation in known and known[generation] != result.session_id
    )


def load(path: str, run: str) -> Assigned | None:
    """Return the recorded assignment; None if this worker has none."""
    try:
        members = _SHAPE(json.loads(pathlib.Path(path).read_bytes()), "")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        LOG.error("Cannot read the assignment in %s: %s", path, error)
        return None
    if members["run"] != run:
        LOG.info("The assignment in %s is that of an earlier worker", path)
        return None
    return Assigned(
        **{name: one for name, one in members.items() if name != "run"}
    )
