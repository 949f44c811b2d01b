# SPDX-License-Identifier: Apache-2.0

"""The members of a group, :data:`GROUP`, and of its clients, :data:`CLIENT`.

Two members are not in them because each interface shows them differently: the
slots that a group has, and the hosts to which its clients connect.
"""

from __future__ import annotations

import functools
from typing import Any

from fpgapool.vocabulary import fields
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import states

#: Kinds of goals.
DEADLINE = "deadline"
RATE = "rate"

#: Which waiting task a free member of a group takes: with fifo, the oldest one
#: of the project that was served the fewest tasks; with time, one of the
#: project, and within it of the client, that has used the least time.
FIFO = "fifo"
TIME = "time"
ARBITRATIONS = (FIFO, TIME)
#: When members are cleared: before each task of a different client, as cores
#: with state require, or only before tasks of a different project.
CLIENTS = "clients"
PROJECTS = "projects"
CLEARINGS = (CLIENTS, PROJECTS)
#: Maximum size of a task's input, and of its output, unless a desk sets other
#: limits.
MAX_TASK_BYTES = 4 * 1024 * 1024

#: Name of the object that shows users the goal of a group.
GOAL = "goal"


def _of_first_slots(
    name: str, kind: fields.Kind, about: str, **more: Any
) -> fields.Option:
    """Return an option about slots that a group gets all at once.

    No column has it; see
    :mod:`fpgapool.conductor.decisions.requests.first_slots`.
    """
    found = {
        "default": None,
        "in_record": False,
        "in_request": 1,
        "in_view": 2,
        "in_notification": None,
        "since": (1, 3),
        "listed": False,
        "fixed": True,
    }
    return fields.option(name, kind, about, **{**found, **more})


GROUP = fields.Fields(
    fields.public("group_id", fields.UUID, length=36, shown="id", column=True),
    fields.option(
        "name",
        fields.NAME,
        "Unique in its project.",
        length=64,
        column=True,
        check=rules.check_group_name,
        limits={"pattern": f"^{rules.GROUP_NAME}$"},
        help="name of the group, unique in the project",
    ),
    fields.public("project_id", fields.TEXT, length=255, column=False),
    fields.public("accelerator", fields.NAME, length=255, column=True),
    fields.public(
        "state",
        fields.STATE,
        length=16,
        column=True,
        limits={"enum": list(states.GROUP_STATES)},
    ),
    fields.option(
        "size",
        fields.INTEGER,
        "Number of slots to hold; the pool changes it if `elastic` is true.",
        length=32,
        column=True,
        help="number of slots to hold",
    ),
    fields.option(
        "min_size",
        fields.INTEGER,
        "Minimum number of slots that the group keeps, even while sessions are"
        " waiting. Default is `size`.",
        length=32,
        column=False,
        help="minimum number of slots that the group keeps, even while"
        " sessions are waiting; default is the size",
    ),
    fields.option(
        "max_size",
        fields.INTEGER,
        "Maximum number of slots of the group. Default is `size`.",
        length=32,
        column=False,
        help="maximum number of slots of the group; default is the size",
    ),
    fields.option(
        "elastic",
        fields.FLAG,
        "Whether the pool resizes the group between `min_size` and `max_size`"
        " as work and goals require. Default is false.",
        default=False,
        column=True,
        help="whether the pool resizes the group as work and goals require",
    ),
    _of_first_slots(
        "all_or_none",
        fields.FLAG,
        "Whether the first `min_size` slots, at most 64, come at the same time"
        " or not at all. Until all of them are ready, the group has none.",
        help="get the first slots, as many as --min-size and at most 64, at"
        " the same time, or none; until then the group waits without any",
    ),
    _of_first_slots(
        "placement",
        fields.NAME,
        "Where these first slots must be: on one board (`same_board`), on one"
        " host (`same_host`), or each on another board (`spread`); null:"
        " anywhere.",
        check=rules.check_placement,
        limits={"enum": list(states.PLACEMENTS)},
        help="with --all-or-none: where these slots must be: same_board,"
        " same_host, or spread, which means each on another board",
    ),
    _of_first_slots(
        "wait_timeout_s",
        fields.SECONDS,
        "How long the group waits for these first slots before it fails; null:"
        " without a limit.",
        check=functools.partial(rules.check_timeout_s, name="wait_timeout_s"),
        limits={"exclusiveMinimum": 0, "maximum": rules.MAX_TIMEOUT_S},
        help="with --all-or-none: how long the group waits for these slots"
        " before it fails, in seconds",
    ),
    fields.option(
        "shared",
        fields.FLAG,
        "Whether other projects may use it. Default is false; administrators"
        " can share groups whose accelerator is stateless.",
        default=False,
        column=False,
        help="whether other projects may use it (admin only)",
    ),
    fields.option(
        "projects",
        fields.NAMES,
        "The other projects that may use a shared group; an empty list means"
        " all projects. Only the group's owner sees them.",
        default=(),
        column=False,
        check=rules.check_projects,
        limits={"maxItems": rules.MAX_PROJECTS},
        help="share it only with this project (admin only)",
    ),
    fields.public("created_at", fields.TIME, column=False),
    fields.time("updated_at", "Time of its last change."),
    fields.public(
        "goal_kind",
        fields.TEXT,
        "`deadline` or `rate`.",
        default="",
        length=16,
        shown="kind",
        part=GOAL,
    ),
    fields.public(
        "deadline_at",
        fields.TIME,
        "When all its tasks must have completed.",
        default=None,
        shown="deadline_at",
        part=GOAL,
    ),
    fields.public(
        "rate_per_s",
        fields.NUMBER,
        "Tasks to complete per second.",
        default=None,
        shown="rate_per_s",
        part=GOAL,
    ),
    fields.public(
        "actions",
        fields.COUNT,
        "Number of tasks after which the goal ends.",
        default=None,
        shown="actions",
        part=GOAL,
    ),
    fields.public(
        "actions_done",
        fields.COUNT,
        "Number of completed tasks.",
        default=0,
        shown="actions_done",
        part=GOAL,
    ),
    fields.now(
        "goal_progress",
        fields.NUMBER,
        "Measured task rate divided by the required rate; above 1, the goal is"
        " exceeded.",
        shown="progress",
        part=GOAL,
    ),
    fields.now(
        "goal_slots",
        fields.COUNT,
        "Number of slots that the goal requires.",
        shown="slots",
        part=GOAL,
    ),
    fields.now(
        "waiting_tasks",
        fields.COUNT,
        "Number of tasks that wait for a slot, as of the hosts' last reports.",
        shown="waiting_tasks",
        in_view=2,
        since=(1, 3),
    ),
    fields.now(
        "reason",
        fields.NAME,
        "Why it did not get its first slots: a code; null: it may yet, or"
        " has.",
        shown="reason",
        in_view=2,
        since=(1, 3),
    ),
    fields.now(
        "expected_finish_at",
        fields.TIME,
        "When all its tasks will have completed at the current rate.",
        shown="expected_finish_at",
        part=GOAL,
    ),
    sort_keys=("created_at", "name", "accelerator", "state", "updated_at"),
    filters={
        name: name
        for name in ("name", "accelerator", "state", "shared", "project_id")
    },
)

CLIENT = fields.Fields(
    fields.public(
        "client_id", fields.UUID, length=36, shown="id", column=True
    ),
    fields.Field("group_id", fields.UUID, length=36, in_notification=0),
    fields.public(
        "project_id",
        fields.TEXT,
        "The project that attached it.",
        length=255,
        column=True,
    ),
    fields.public(
        "user_id",
        fields.TEXT,
        "The user who attached it.",
        length=255,
        column=False,
    ),
    fields.public(
        "state",
        fields.STATE,
        length=16,
        column=True,
        limits={"enum": list(states.CLIENT_STATES)},
    ),
    # SHA-256, hexadecimal.
    fields.Field("secret_hash", fields.TEXT, length=64),
    fields.public("created_at", fields.TIME, column=True),
    fields.count("tasks", "Number of completed tasks.", column=True),
    fields.public(
        "slot_s",
        fields.NUMBER,
        "Slot time that its tasks and locks used, in seconds.",
        default=0.0,
        column=True,
    ),
    sort_keys=("created_at", "project_id"),
)


def charged_slots(group: Any) -> int:
    """Return how many slots a group takes from its project's quota."""
    if group.state == states.GROUP_FAILED:
        return 0
    size: int = group.max_size if group.elastic else group.size
    return size


def is_reached(group: Any) -> bool:
    """Whether all tasks of a group's goal have completed."""
    return bool(group.goal_kind) and group.actions_done == group.actions


def is_open_to(group: Any, project_id: str | None) -> bool:
    """Whether a project may see and use a group."""
    return project_id == group.project_id or (
        group.shared and (not group.projects or project_id in group.projects)
    )
