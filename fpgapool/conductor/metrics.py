# SPDX-License-Identifier: Apache-2.0

"""The conductor's metrics for Prometheus."""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterable
from collections.abc import Mapping

from oslo_config import cfg

from fpgapool.common.monitoring import metrics
from fpgapool.conductor import service
from fpgapool.conductor.decisions.views import summary

# Shorter than Prometheus's timeout, which is 10 s by default.
_PATIENCE_S = 2.0

_GROUP_STATES = ("programming", "serving")


def _each(
    counts: Mapping[str, float], labels: Iterable[str]
) -> dict[str, float]:
    return {label: counts.get(label, 0) for label in labels}


def _of_groups(figures: summary.Figures, name: str) -> dict[str, int]:
    return {g: getattr(one, name) for g, one in figures.groups.items()}


_ALWAYS = metrics.table(
    """
gauge fpgapool_conductor_leading = leading
    1 if the conductor leads, 0 while it stands by.
"""
)
_KNOWN = metrics.table(
    """
gauge fpgapool_conductor_state_known = known
    1 if the scheduler answered this scrape in time; 0 if not, in which
    case the scheduler's metrics are absent.
"""
)
#: Metrics of all terms of a conductor.
_COUNTS = metrics.table(
    """
histogram fpgapool_conductor_wait_seconds = waits_s
    Time from a session's arrival to its first slot.
histogram fpgapool_conductor_service_seconds = service_s
    Time for which a session held a slot.
counter fpgapool_conductor_moved_bytes_total = moved_bytes
    Input and output of sessions and of groups' tasks, counted when a host
    reports it.
counter fpgapool_conductor_sessions_opened_total = opened
    Sessions that were admitted.
counter fpgapool_conductor_requests_refused_total{code} = refused
    Requests that were not admitted, by code.
counter fpgapool_conductor_sessions_ended_total{state,code} = ended
    Sessions that ended, by state and code.
histogram fpgapool_conductor_decision_seconds = decisions_s
    Time to decide on a batch of inputs.
histogram fpgapool_conductor_batch_inputs = batch_inputs
    Number of inputs in a batch.
histogram fpgapool_conductor_commit_seconds = commits_s
    Duration of a successful database transaction.
counter fpgapool_conductor_commit_rows_total = commit_rows
    Rows written or deleted.
counter fpgapool_conductor_commit_failures_total = commit_failures
    Transactions that were delayed because the database was unavailable.
counter fpgapool_conductor_purged_rows_total{table} = purged_rows
    Rows of sessions and instances deleted after [database] retention_days.
counter fpgapool_conductor_messages_dropped_total{sender} = dropped
    Messages to agents dropped because the broker did not keep up, by the
    thread that sends them.
counter fpgapool_conductor_inputs_dropped_total = inputs_dropped
    Inputs from clients and agents dropped because too many were waiting.
counter fpgapool_conductor_notifications_total = notifications_sent
    Notifications handed to the message bus.
counter fpgapool_conductor_notification_failures_total = notifications_failed
    Notifications that the message bus did not accept.
counter fpgapool_conductor_notifications_dropped_total = notifications_dropped
    Notifications dropped because too many were waiting for the message bus.
counter fpgapool_conductor_placement_syncs_total = placement_syncs
    Comparisons of Placement's records with the pool's hardware.
counter fpgapool_conductor_placement_failures_total = placement_failures
    Comparisons, and queries for reservations, that failed because Placement or
    Nova was unavailable.
counter fpgapool_conductor_placement_conflicts_total = placement_conflicts
    Changes in Placement that were retried because of a conflicting change.
counter fpgapool_conductor_placement_requests_total = placement_requests
    Requests to Placement.
counter fpgapool_conductor_reconcile_total{kind} = reconciled
    Differences that were found and corrected: slots that serve an unknown
    session (stray), orders that were not carried out (not_started,
    not_released), workers that have disappeared (vanished), and, when a
    conductor took over, end_not_recorded, slot_without_session and
    session_without_slot.
counter fpgapool_conductor_self_tests_total{outcome} = self_tests
    Self-tests of slots, by outcome: passed, failed, or none if the test did
    not run.
histogram fpgapool_conductor_rpc_seconds{method} = rpc.durations
    Time to hand a message for agents to the broker.
counter fpgapool_conductor_rpc_failures_total{method} = rpc.failures
    Messages for agents that the broker did not accept.
counter fpgapool_conductor_group_tasks_total = group_tasks
    Ended tasks of all groups.
counter fpgapool_conductor_group_busy_seconds_total = group_busy_s
    Time for which group tasks and locks held slots.
counter fpgapool_conductor_group_slot_seconds_total{state} = group_slot_s
    Time for which groups held slots, while the slots were being programmed
    (programming) and afterwards (serving).
counter fpgapool_conductor_group_resizes_total{direction} = group_resizes
    Changes to group sizes, by owners or by the pool: grow or shrink.
counter fpgapool_conductor_deadlines_total{project,result} = deadlines
    Deadlines of ended sessions, by project and result: met or missed.
counter fpgapool_conductor_slots_taken_back_total{project,reason} = taken_back
    Slots that sessions lost before they ended, by project and reason:
    PREEMPTED, YIELDED, DRAINED, RESERVED.
"""
)
#: Metrics of the leader.
_TERM = metrics.table(
    """
gauge fpgapool_conductor_epoch = epoch
    Epoch of the leader; absent while the conductor stands by.
gauge fpgapool_conductor_inputs_backlog = pump.backlog
    Inputs waiting for the scheduler.
gauge fpgapool_conductor_commits_backlog = committer.backlog
    Batches of rows waiting to be written.
gauge fpgapool_conductor_database_failing = committer.failing
    1 while the database is unavailable or does not answer.
"""
)
#: Metrics of the leader's scheduler.
_FIGURES = metrics.table(
    """
gauge fpgapool_conductor_project_queued_sessions{project} = queued_by_project
    Sessions waiting for a slot, by project; the projects with the longest
    queues are listed individually.
gauge fpgapool_conductor_queue_sessions{queue} = queues
    Sessions waiting for a slot, by size-based priority queue; queue 1 has the
    smallest sessions and is served first.
gauge fpgapool_conductor_queued_bytes = queued_bytes
    Bytes that waiting sessions claim.
gauge fpgapool_conductor_sessions{state} = sessions
    Sessions that are waiting for a slot or hold one, by state.
gauge fpgapool_conductor_slots{state} = slots
    Slots by state; host_down if their host does not report, disabled if their
    device or host is not enabled.
gauge fpgapool_conductor_host_up{host} = hosts
    1 while the host's agent reports, otherwise 0.
gauge fpgapool_conductor_host_clock_behind_seconds{host} = clocks_behind_s
    How far the host's wall clock is behind the leader's, according to its last
    reports; negative if it is ahead.
gauge fpgapool_conductor_devices{admin_state} = devices
    Devices by administrative state, including that of their hosts: enabled,
    draining or disabled.
gauge fpgapool_conductor_reservations{state} = reservations
    Slots that instances have reserved: ready, or pending while no usable slot
    is free for the reservation.
gauge fpgapool_conductor_calendar_reservations{state} = calendar
    Reservations by calendar by state: scheduled, at_risk, active, failed,
    released, ended.
gauge fpgapool_conductor_local_reserve_slots{state} = local_reserve
    Slots that strategies may keep for sessions of their own hosts: kept, or
    open to others because local sessions need fewer.
gauge fpgapool_conductor_budgets{state} = budgets
    Projects with a budget: within it, near its end (at least 80 % used), or
    exhausted.
gauge fpgapool_conductor_group_slots{group,state} = group_slots
    Slots of a group, programming or serving; the groups with the most slots
    are listed individually.
gauge fpgapool_conductor_group_wanted_slots{group} = group_wanted
    Target number of slots of a group.
gauge fpgapool_conductor_group_waiting_tasks{group} = group_waiting
    Tasks waiting in the queues of a group's desks.
"""
)
DEFINITIONS = (
    *_ALWAYS,
    *_KNOWN,
    *_TERM,
    *_FIGURES,
    *_COUNTS,
)


def endpoint(
    conf: cfg.ConfigOpts, conductor: service.Conductor
) -> metrics.Endpoint:
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
    """Add a conductor's metrics to a page."""
    counts = conductor.counts
    page.fill(
        _COUNTS,
        counts,
        deadlines=_of_first_projects(counts.deadlines, max_projects),
        taken_back=_of_first_projects(counts.taken_back, max_projects),
        dropped=_each(counts.dropped, ("news", "orders")),
        group_slot_s=_each(counts.group_slot_s, _GROUP_STATES),
        group_resizes=_each(counts.group_resizes, ("grow", "shrink")),
    )
    term = conductor.term
    page.fill(_ALWAYS, None, leading=term is not None)
    if term is None:
        return
    page.fill(_TERM, term)
    try:
        figures = term.pump.ask(
            lambda asked: asked.figures(max_projects, max_groups),
            _PATIENCE_S,
            durable=False,
        )
    except TimeoutError:
        page.fill(_KNOWN, None, known=False)
        return
    page.fill(_KNOWN, None, known=True)
    page.fill(
        _FIGURES,
        figures,
        queues={
            str(number): count
            for number, count in enumerate(figures.queued_by_size, start=1)
        },
        slots=_each(figures.slots, summary.SLOT_STATES),
        group_slots={
            (group, state): getattr(one, state)
            for group, one in figures.groups.items()
            for state in _GROUP_STATES
        },
        group_wanted=_of_groups(figures, "wanted"),
        group_waiting=_of_groups(figures, "waiting"),
    )


def _of_first_projects(
    counts: Mapping[tuple[str, str], int], max_projects: int
) -> collections.Counter[tuple[str, str]]:
    """Return counts by project, combining all but the first projects.

    These are the projects that were counted first, so that no count decreases.
    """
    found = list(counts.items())
    named = list(dict.fromkeys(project for (project, _), _ in found))
    shown = set(named[:max_projects])
    summed = collections.Counter[tuple[str, str]]()
    for (project, result), count in found:
        name = project if project in shown else summary.OTHER
        summed[name, result] += count
    return summed
