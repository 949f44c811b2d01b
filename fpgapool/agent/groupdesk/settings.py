# SPDX-License-Identifier: Apache-2.0

"""The settings of a desk process."""

from __future__ import annotations

import dataclasses

from fpgapool.agent.child import settings
from fpgapool.agent.groupdesk.decisions import queues
from fpgapool.protocol import groups
from fpgapool.vocabulary import group


def _slots(value: object) -> tuple[tuple[str, int], ...]:
    if isinstance(value, list) and value:
        slots = [
            (str(one[0]), one[1])
            for one in value
            if isinstance(one, list)
            and len(one) == 2
            and isinstance(one[0], str)
            and settings.is_integer(one[1])
        ]
        if len(slots) == len(value) == len(set(slots)):
            return tuple(slots)
    raise ValueError("must be a list of distinct pairs of device and number")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeskSettings(settings.ChildSettings):
    """The settings of a desk.

    :ivar slots: device and number of each slot of this host, also of those
        that are not members.
    :ivar clear_between: ``clients`` or ``projects``: when a member is cleared
        that served another one.
    :ivar window_tasks: the most unanswered tasks of a client; it may request
        fewer.
    :ivar max_task_bytes: longest input, and longest output, of a task.
    :ivar resume_grace_s: how long the locks of a lost client last.
    :ivar lock_idle_s: how long a lock lasts without a task.
    """

    group_id: str
    slots: tuple[tuple[str, int], ...] = settings.checked(_slots)
    member_socket: str
    arbitration: str = settings.one_of(group.ARBITRATIONS, group.FIFO)
    clear_between: str = settings.one_of(group.CLEARINGS, group.CLIENTS)
    window_tasks: int = settings.number(
        1, groups.MAX_WINDOW_TASKS, default=groups.MAX_WINDOW_TASKS
    )
    # The rings have room for the default.
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


def parse(text: str | bytes) -> DeskSettings:
    """Parse and check a document; raises settings.InvalidSettings."""
    return settings.parse(DeskSettings, text)
