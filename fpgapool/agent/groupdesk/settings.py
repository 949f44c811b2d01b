# SPDX-License-Identifier: Apache-2.0

"""The settings of a desk process."""

from __future__ import annotations

import dataclasses
import functools

from fpgapool.agent.child import settings
from fpgapool.agent.groupdesk.decisions import queues
from fpgapool.protocol import groups
from fpgapool.vocabulary import group
from fpgapool.vocabulary import shapes


def _slot(value: object, where: str) -> tuple[str, int]:
    pair = shapes.list_of(shapes.anything, 2, 2)(value, where)
    return (
        shapes.text()(pair[0], f"{where}[0]"),
        shapes.integer()(pair[1], f"{where}[1]"),
    )


_SLOTS = shapes.list_of(_slot, 1, distinct=True)


def _slots(value: object, where: str) -> tuple[tuple[str, int], ...]:
    return tuple(_SLOTS(value, where))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeskSettings(settings.ChildSettings):
    """The settings of a desk.

    :ivar slots: device and number of each slot of this host, member or not.
    :ivar clear_between: ``clients`` or ``projects``: a member is cleared
        before it serves a different one.
    :ivar window_tasks: maximum number of a client's unanswered tasks; the
        client may request a lower one.
    :ivar max_task_bytes: maximum size of a task's input, and of its output.
    :ivar resume_grace_s: time for which a lost client keeps its locks.
    """

    group_id: str
    slots: tuple[tuple[str, int], ...] = settings.checked(_slots)
    member_socket: str
    arbitration: str = settings.one_of(group.ARBITRATIONS, group.FIFO)
    clear_between: str = settings.one_of(group.CLEARINGS, group.CLIENTS)
    window_tasks: int = settings.number(
        1, groups.MAX_WINDOW_TASKS, default=groups.MAX_WINDOW_TASKS
    )
    # The rings are sized for the default.
    max_task_bytes: int = settings.number(
        1, group.MAX_TASK_BYTES, default=group.MAX_TASK_BYTES
    )
    max_group_project_connections: int = settings.number(
        1, 100_000, default=64
    )
    resume_grace_s: float = 10.0
    lock_idle_s: float = queues.LOCK_IDLE_S

    @property
    def log_name(self) -> str:
        return self.group_id


parse = functools.partial(settings.parse, DeskSettings)
