# SPDX-License-Identifier: Apache-2.0

"""The settings of a desk: one JSON document from its agent."""

from __future__ import annotations

import dataclasses
import typing

from fpgapool.agent.groupdesk.decisions import queues
from fpgapool.agent.worker import settings as worker_settings
from fpgapool.protocol import groups
from fpgapool.vocabulary import group


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a desk.

    :ivar group_id: its group.
    :ivar slots: device and number of each slot of this host, also of those
        that are not members.
    :ivar control_socket: path where the agent connects.
    :ivar data_socket: path where clients of the host connect.
    :ivar member_socket: path where members connect.
    :ivar data_address: address where other clients connect; None for none.
    :ivar data_ports: first and last port to try there; 0 for any.
    :ivar tls: whether connections to ``data_address`` are encrypted.
    :ivar arbitration: ``fifo`` or ``time``.
    :ivar clear_between: ``clients`` or ``projects``: when a member is cleared
        that served another one.
    :ivar window_tasks: most unanswered tasks of a client; it may have fewer.
    :ivar max_task_bytes: longest input, and longest output, of a task.
    :ivar block_cache_bytes: of each member.
    :ivar max_group_project_connections: of all clients of a project.
    :ivar resume_grace_s: how long the locks of a lost client last.
    :ivar lock_idle_s: how long a lock lasts without a task.
    :ivar hello_timeout_s: how long a connection may take to identify itself.
    :ivar orphan_s: how long to live with neither agent nor client.
    :ivar exit_with_agent: whether to end when the agent's connection does.
    :ivar log_file: path of the log; None for standard error.
    :ivar log_level: name of the lowest level that is logged.
    """

    group_id: str
    slots: tuple[tuple[str, int], ...]
    control_socket: str
    data_socket: str
    member_socket: str
    data_address: str | None = None
    data_ports: tuple[int, int] = (0, 0)
    tls: bool = True
    arbitration: str = group.FIFO
    clear_between: str = group.CLIENTS
    window_tasks: int = groups.MAX_WINDOW_TASKS
    max_task_bytes: int = group.MAX_TASK_BYTES
    block_cache_bytes: int = 256 * 1024 * 1024
    max_group_project_connections: int = 64
    resume_grace_s: float = 10.0
    lock_idle_s: float = queues.LOCK_IDLE_S
    hello_timeout_s: float = 5.0
    orphan_s: float = 600.0
    exit_with_agent: bool = False
    log_file: str | None = None
    log_level: str = "INFO"

    @property
    def log_name(self) -> str:
        """Names the desk in its log."""
        return self.group_id


_TEXTS = ("group_id", "control_socket", "data_socket", "member_socket")
_INTEGERS = {
    "window_tasks": (1, groups.MAX_WINDOW_TASKS),
    # The rings have room for the default.
    "max_task_bytes": (1, group.MAX_TASK_BYTES),
    "block_cache_bytes": (0, 2**50),
    "max_group_project_connections": (1, 100_000),
}
_SECONDS = ("resume_grace_s", "lock_idle_s", "hello_timeout_s", "orphan_s")
_CHECKS: dict[str, typing.Callable[[typing.Any], bool]] = {
    "data_address": lambda value: isinstance(value, str | None),
    "log_file": lambda value: isinstance(value, str | None),
    "tls": lambda value: isinstance(value, bool),
    "exit_with_agent": lambda value: isinstance(value, bool),
    "arbitration": lambda value: value in group.ARBITRATIONS,
    "clear_between": lambda value: value in group.CLEARINGS,
    "log_level": lambda value: value in worker_settings.LEVELS,
}


def parse(text: str | bytes) -> Settings:
    """Parse and check a settings document.

    Members that this version does not know are ignored, so that an agent may
    be newer than its desks.

    :param text: JSON.
    :returns: the settings.
    :raises worker_settings.InvalidSettings: with the member and the fault.
    """
    members = worker_settings.checked(
        text, Settings, _TEXTS, _CHECKS, integers=_INTEGERS, seconds=_SECONDS
    )
    members["slots"] = _slots(members.get("slots"))
    return Settings(**members)


def _slots(value: object) -> tuple[tuple[str, int], ...]:
    if isinstance(value, list) and value:
        slots = [
            (str(one[0]), one[1])
            for one in value
            if isinstance(one, list)
            and len(one) == 2
            and isinstance(one[0], str)
            and worker_settings.is_integer(one[1])
        ]
        if len(slots) == len(value) == len(set(slots)):
            return tuple(slots)
    raise worker_settings.InvalidSettings(
        "slots: must be a list of different pairs of device and number"
    )
