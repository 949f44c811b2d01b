# SPDX-License-Identifier: Apache-2.0

"""The conductor's metrics for Prometheus."""

from __future__ import annotations

import collections
import functools
from collections.abc import Mapping

from oslo_config import cfg

from fpgapool.common.monitoring import metrics
from fpgapool.conductor import service
from fpgapool.conductor.decisions.views import questions
from fpgapool.conductor.decisions.views import summary

# Prometheus's own timeout is 10 s.
_PATIENCE_S = 2.0

_GROUP_STATES = ("programming", "serving")

_gauge = functools.partial(metrics.Definition, kind=metrics.GAUGE)
_counter = functools.partial(metrics.Definition, kind=metrics.COUNTER)
_histogram = functools.partial(metrics.Definition, kind=metrics.HISTOGRAM)

LEADING = _gauge(
    "fpgapool_conductor_leading",
    help="1 if the conductor leads, 0 while it stands by.",
)
EPOCH = _gauge(
    "fpgapool_conductor_epoch",
    help="Number of the leader's epoch; absent while it stands by.",
)
STATE_KNOWN = _gauge(
    "fpgapool_conductor_state_known",
    help="1 if the scheduler has answered this scrape in time; otherwise its"
    " metrics are absent.",
)
PROJECT_QUEUED = _gauge(
    "fpgapool_conductor_project_queued_sessions",
    help="Sessions that wait for a slot, by project; those with the longest"
    " queues one by one.",
    labels=("project",),
)
QUEUE_SESSIONS = _gauge(
    "fpgapool_conductor_queue_sessions",
    help="Sessions that wait for a slot, by priority queue of their size;"
    " queue 1 has the smallest and goes first.",
    labels=("queue",),
)
QUEUED_BYTES = _gauge(
    "fpgapool_conductor_queued_bytes",
    help="Bytes that waiting sessions claim.",
)
SESSIONS = _gauge(
    "fpgapool_conductor_sessions",
    help="Sessions that wait for or have a slot, by state.",
    labels=("state",),
)
SLOTS = _gauge(
    "fpgapool_conductor_slots",
    help="Slots by state; host_down if their host is silent, disabled if"
    " their device or host is not enabled.",
    labels=("state",),
)
HOST_UP = _gauge(
    "fpgapool_conductor_host_up",
    help="1 if a host's agent reports, 0 if it is silent.",
    labels=("host",),
)
HOST_CLOCK_BEHIND = _gauge(
    "fpgapool_conductor_host_clock_behind_seconds",
    help="How much a host's wall clock is behind the leader's, by its last"
    " reports; negative if it is ahead.",
    labels=("host",),
)
DEVICES = _gauge(
    "fpgapool_conductor_devices",
    help="Devices by administrative state, that of their hosts included:"
    " enabled, draining or disabled.",
    labels=("admin_state",),
)
RESERVATIONS = _gauge(
    "fpgapool_conductor_reservations",
    help="Slots that instances have reserved: ready, or pending while the"
    " reservation has no usable slot without another holder.",
    labels=("state",),
)
GROUP_SLOTS = _gauge(
    "fpgapool_conductor_group_slots",
    help="Slots of a group, programming or serving; groups with the most slots"
    " one by one.",
    labels=("group", "state"),
)
GROUP_WANTED = _gauge(
    "fpgapool_conductor_group_wanted_slots",
    help="Slots that a group shall have.",
    labels=("group",),
)
GROUP_WAITING = _gauge(
    "fpgapool_conductor_group_waiting_tasks",
    help="Tasks that wait in the queues of a group's desks.",
    labels=("group",),
)
GROUP_TASKS = _counter(
    "fpgapool_conductor_group_tasks_total",
    help="Tasks of all groups that have ended.",
)
GROUP_BUSY = _counter(
    "fpgapool_conductor_group_busy_seconds_total",
    help="Time for which these tasks, and locks, had slots.",
)
GROUP_SLOT_TIME = _counter(
    "fpgapool_conductor_group_slot_seconds_total",
    help="Time for which groups had slots, while these were programmed"
    " (programming) and afterwards (serving).",
    labels=("state",),
)
GROUP_RESIZES = _counter(
    "fpgapool_conductor_group_resizes_total",
    help="Changes of the sizes of groups, by owners and the pool: grow or"
    " shrink.",
    labels=("direction",),
)
WAIT = _histogram(
    "fpgapool_conductor_wait_seconds",
    help="Time from a session's arrival to its first slot.",
)
SERVICE = _histogram(
    "fpgapool_conductor_service_seconds",
    help="Time for which a session held a slot.",
)
OPENED = _counter(
    "fpgapool_conductor_sessions_opened_total",
    help="Sessions that were admitted.",
)
REFUSED = _counter(
    "fpgapool_conductor_requests_refused_total",
    help="Requests that were not admitted, by code.",
    labels=("code",),
)
ENDED = _counter(
    "fpgapool_conductor_sessions_ended_total",
    help="Sessions that ended, by state and code.",
    labels=("state", "code"),
)
DEADLINES = _counter(
    "fpgapool_conductor_deadlines_total",
    help="Deadlines of sessions that have ended, by project: met, missed.",
    labels=("project", "result"),
)
TAKEN_BACK = _counter(
    "fpgapool_conductor_slots_taken_back_total",
    help="Slots that sessions had to leave before their end, by project and"
    " reason: PREEMPTED, YIELDED, DRAINED, RESERVED.",
    labels=("project", "reason"),
)
DECISION = _histogram(
    "fpgapool_conductor_decision_seconds",
    help="Time to decide on a batch of inputs.",
)
BATCH = _histogram(
    "fpgapool_conductor_batch_inputs",
    help="Inputs that were decided on together.",
)
INPUTS_BACKLOG = _gauge(
    "fpgapool_conductor_inputs_backlog",
    help="Inputs that wait to be decided on.",
)
COMMIT = _histogram(
    "fpgapool_conductor_commit_seconds",
    help="Time of a transaction that was written.",
)
COMMIT_ROWS = _counter(
    "fpgapool_conductor_commit_rows_total",
    help="Rows that were written and deleted.",
)
COMMIT_FAILURES = _counter(
    "fpgapool_conductor_commit_failures_total",
    help="Transactions that were put off because the database was away.",
)
PURGED_ROWS = _counter(
    "fpgapool_conductor_purged_rows_total",
    help="Rows deleted because they ended [database] retention_days ago.",
    labels=("table",),
)
COMMITS_BACKLOG = _gauge(
    "fpgapool_conductor_commits_backlog",
    help="Batches of rows that wait to be written.",
)
DATABASE_FAILING = _gauge(
    "fpgapool_conductor_database_failing",
    help="1 while the database is away or does not answer.",
)
DROPPED = _counter(
    "fpgapool_conductor_messages_dropped_total",
    help="Messages to agents dropped because the broker did not keep up, by"
    " the thread that sends them.",
    labels=("sender",),
)
INPUTS_DROPPED = _counter(
    "fpgapool_conductor_inputs_dropped_total",
    help="Inputs of clients and agents dropped because too many waited.",
)
NOTIFICATIONS = _counter(
    "fpgapool_conductor_notifications_total",
    help="Notifications handed to the message bus.",
)
NOTIFICATION_FAILURES = _counter(
    "fpgapool_conductor_notification_failures_total",
    help="Notifications that the message bus did not take.",
)
NOTIFICATIONS_DROPPED = _counter(
    "fpgapool_conductor_notifications_dropped_total",
    help="Notifications dropped because too many waited for the message bus.",
)
PLACEMENT_SYNCS = _counter(
    "fpgapool_conductor_placement_syncs_total",
    help="Comparisons of what Placement has with what the pool has.",
)
PLACEMENT_FAILURES = _counter(
    "fpgapool_conductor_placement_failures_total",
    help="Comparisons, and questions who has reserved slots, that failed"
    " because Placement or Nova was away.",
)
PLACEMENT_CONFLICTS = _counter(
    "fpgapool_conductor_placement_conflicts_total",
    help="Changes in Placement that were tried again because others had come"
    " before them.",
)
PLACEMENT_REQUESTS = _counter(
    "fpgapool_conductor_placement_requests_total",
    help="Requests to Placement.",
)
RECONCILED = _counter(
    "fpgapool_conductor_reconcile_total",
    help="Differences that were found and corrected: slots that work for an"
    " unknown session (stray), orders that were not carried out (not_started,"
    " not_released), workers that are gone (vanished), and, when a conductor"
    " took over, end_not_recorded, slot_without_session and"
    " session_without_slot.",
    labels=("kind",),
)
SELF_TESTS = _counter(
    "fpgapool_conductor_self_tests_total",
    help="Self-tests of slots, by outcome: passed, failed, or"
    " none if it did not take place.",
    labels=("outcome",),
)
RPC = _histogram(
    "fpgapool_conductor_rpc_seconds",
    help="Time to hand a message for agents to the broker.",
    labels=("method",),
)
RPC_FAILURES = _counter(
    "fpgapool_conductor_rpc_failures_total",
    help="Messages for agents that the broker did not take.",
    labels=("method",),
)

DEFINITIONS = (
    LEADING,
    EPOCH,
    STATE_KNOWN,
    PROJECT_QUEUED,
    QUEUE_SESSIONS,
    QUEUED_BYTES,
    SESSIONS,
    SLOTS,
    HOST_UP,
    HOST_CLOCK_BEHIND,
    DEVICES,
    RESERVATIONS,
    GROUP_SLOTS,
    GROUP_WANTED,
    GROUP_WAITING,
    GROUP_TASKS,
    GROUP_BUSY,
    GROUP_SLOT_TIME,
    GROUP_RESIZES,
    WAIT,
    SERVICE,
    OPENED,
    REFUSED,
    ENDED,
    DEADLINES,
    TAKEN_BACK,
    DECISION,
    BATCH,
    INPUTS_BACKLOG,
    COMMIT,
    COMMIT_ROWS,
    COMMIT_FAILURES,
    PURGED_ROWS,
    COMMITS_BACKLOG,
    DATABASE_FAILING,
    DROPPED,
    NOTIFICATIONS,
    NOTIFICATION_FAILURES,
    INPUTS_DROPPED,
    NOTIFICATIONS_DROPPED,
    PLACEMENT_SYNCS,
    PLACEMENT_FAILURES,
    PLACEMENT_CONFLICTS,
    PLACEMENT_REQUESTS,
    RECONCILED,
    SELF_TESTS,
    RPC,
    RPC_FAILURES,
)


def endpoint(
    conf: cfg.ConfigOpts, conductor: service.Conductor
) -> metrics.Endpoint:
    """Return the endpoint of a conductor's metrics."""
    return metrics.Endpoint(
        conf,
        "conductor_port",
        DEFINITIONS,
        functools.partial(
            fill,
            conductor,
            conf.metrics.max_projects,
            conf.metrics.max_groups,
        ),
    )


def fill(
    conductor: service.Conductor,
    max_projects: int,
    max_groups: int,
    page: metrics.Page,
) -> None:
    """Add a conductor's metrics to a page.

    :param conductor: the conductor.
    :param max_projects: the most projects to list by name.
    :param max_groups: the most groups to list.
    :param page: takes the metrics.
    """
    _put_counts(conductor, page, max_projects)
    term = conductor.term
    page.put(LEADING.name, term is not None)
    if term is None:
        return
    page.put(EPOCH.name, term.epoch)
    page.put(INPUTS_BACKLOG.name, term.inputs_backlog)
    page.put(COMMITS_BACKLOG.name, term.commits_backlog)
    page.put(DATABASE_FAILING.name, term.database_failing)

    def question(asked: questions.Questions) -> summary.Figures:
        return asked.figures(max_projects, max_groups)

    try:
        figures: summary.Figures = term.look(question, _PATIENCE_S)
    except TimeoutError:
        page.put(STATE_KNOWN.name, 0)
        return
    page.put(STATE_KNOWN.name, 1)
    _put_figures(figures, page)


def _of_first_projects(
    counts: Mapping[tuple[str, str], int], max_projects: int
) -> collections.Counter[tuple[str, str]]:
    """Return counts by project; those after the first ones are one.

    A project that has a name in the metrics keeps it, so that no count falls.
    """
    found = list(counts.items())
    named = list(dict.fromkeys(project for (project, _), _ in found))
    shown = set(named[:max_projects])
    summed = collections.Counter[tuple[str, str]]()
    for (project, result), count in found:
        name = project if project in shown else summary.OTHER
        summed[name, result] += count
    return summed


def _put_counts(
    conductor: service.Conductor, page: metrics.Page, max_projects: int
) -> None:
    counts = conductor.counts
    page.put_histogram(WAIT.name, counts.waits_s)
    page.put_histogram(SERVICE.name, counts.service_s)
    page.put(OPENED.name, counts.opened)
    for code, count in list(counts.refused.items()):
        page.put(REFUSED.name, count, code)
    for (state, code), count in list(counts.ended.items()):
        page.put(ENDED.name, count, state, code)
    for metric, found in (
        (DEADLINES, counts.deadlines),
        (TAKEN_BACK, counts.taken_back),
    ):
        named = _of_first_projects(found, max_projects)
        for (project, value), count in named.items():
            page.put(metric.name, count, project, value)
    page.put_histogram(DECISION.name, counts.decisions_s)
    page.put_histogram(BATCH.name, counts.batch_inputs)
    page.put_histogram(COMMIT.name, counts.commits_s)
    page.put(COMMIT_ROWS.name, counts.commit_rows)
    page.put(COMMIT_FAILURES.name, counts.commit_failures)
    for table, count in list(counts.purged_rows.items()):
        page.put(PURGED_ROWS.name, count, table)
    for sender in ("news", "orders"):
        page.put(DROPPED.name, counts.dropped[sender], sender)
    page.put(NOTIFICATIONS.name, counts.notifications_sent)
    page.put(NOTIFICATION_FAILURES.name, counts.notifications_failed)
    page.put(INPUTS_DROPPED.name, counts.inputs_dropped)
    page.put(NOTIFICATIONS_DROPPED.name, counts.notifications_dropped)
    page.put(PLACEMENT_SYNCS.name, counts.placement_syncs)
    page.put(PLACEMENT_FAILURES.name, counts.placement_failures)
    page.put(PLACEMENT_CONFLICTS.name, counts.placement_conflicts)
    page.put(PLACEMENT_REQUESTS.name, counts.placement_requests)
    for kind, count in list(counts.reconciled.items()):
        page.put(RECONCILED.name, count, kind)
    for outcome, count in list(counts.self_tests.items()):
        page.put(SELF_TESTS.name, count, outcome)
    page.put_timings(RPC.name, RPC_FAILURES.name, counts.rpc)
    page.put(GROUP_TASKS.name, counts.group_tasks)
    page.put(GROUP_BUSY.name, counts.group_busy_s)
    for state in _GROUP_STATES:
        page.put(GROUP_SLOT_TIME.name, counts.group_slot_s[state], state)
    for way in ("grow", "shrink"):
        page.put(GROUP_RESIZES.name, counts.group_resizes[way], way)


def _put_figures(figures: summary.Figures, page: metrics.Page) -> None:
    for project, count in figures.queued_by_project.items():
        page.put(PROJECT_QUEUED.name, count, project)
    for number, count in enumerate(figures.queued_by_size, start=1):
        page.put(QUEUE_SESSIONS.name, count, str(number))
    page.put(QUEUED_BYTES.name, figures.queued_bytes)
    for state, count in figures.sessions.items():
        page.put(SESSIONS.name, count, state)
    for state in summary.SLOT_STATES:
        page.put(SLOTS.name, figures.slots.get(state, 0), state)
    for host, up in figures.hosts.items():
        page.put(HOST_UP.name, up, host)
    for host, behind_s in figures.clocks_behind_s.items():
        page.put(HOST_CLOCK_BEHIND.name, behind_s, host)
    for state, count in figures.devices.items():
        page.put(DEVICES.name, count, state)
    for state, count in figures.reservations.items():
        page.put(RESERVATIONS.name, count, state)
    for group, one in figures.groups.items():
        for state in _GROUP_STATES:
            page.put(GROUP_SLOTS.name, getattr(one, state), group, state)
        page.put(GROUP_WANTED.name, one.wanted, group)
        page.put(GROUP_WAITING.name, one.waiting, group)
