# SPDX-License-Identifier: Apache-2.0

"""Detects silent hosts and preparations that hang."""

from __future__ import annotations

from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import pool as pools
from fpgapool.conductor.decisions.assignments import agent_orders
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.assignments import serving as servings
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.core import events
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)

# If more than this share of all hosts is silent at once, the bus is suspected.
_BUS_SUSPECTED_SHARE = 0.5
# Of what a driver says of a failure; it is repeated in each view.
_MAX_CAUSE_LENGTH = 400


class Hosts:
    """Detects lost hosts, and ends their assignments."""

    def __init__(self, pool: pools.Pool, serving: servings.Serving) -> None:
        self._pool = pool
        self._serving = serving
        self._lost_since: dict[str, float] = {}
        self._bus_is_suspected = False
        self._ticked_at: float | None = None

    @property
    def handled(self) -> Mapping[type, pools.Handler]:
        """The handlers of inputs."""
        return {
            inputs.ComputesSeen: self._computes_seen,
            inputs.ComputeDeleted: self._compute_deleted,
        }

    def found(self, host: registry.HostEntry) -> None:
        """Note that a host is up again."""
        self._lost_since.pop(host.uuid, None)

    def tick(self) -> None:
        """Check for silent hosts and for preparations that hang."""
        pool = self._pool
        timeout_s = pool.settings.report_timeout_s
        if (
            self._ticked_at is not None
            and pool.now - self._ticked_at > timeout_s / 2
        ):
            # This conductor stood still, and reports wait in its queue.
            pool.unreachable_until = pool.now
        self._ticked_at = pool.now
        self._find_silent()
        for host in pool.registry.hosts.values():
            if host.turned_clock():
                _log_clock(host)
        for hold in list(pool.holds.values()):
            if pool.holds.get(hold.slot.id) is hold:
                self._check(hold)

    # -- silence -----------------------------------------------------------

    def _find_silent(self) -> None:
        pool = self._pool
        timeout_s = pool.settings.report_timeout_s
        present = [
            host
            for host in pool.registry.hosts.values()
            if host.uuid not in self._lost_since
        ]
        silent = [
            host for host in present if host.heard_at < pool.now - timeout_s
        ]
        if len(silent) > _BUS_SUSPECTED_SHARE * len(present):
            if not self._bus_is_suspected:
                LOG.warning(
                    "%d of %d hosts are silent: the message bus is"
                    " suspected, and no host is marked as lost",
                    len(silent),
                    len(present),
                )
            self._bus_is_suspected = True
            pool.unreachable_until = pool.now
            return
        self._bus_is_suspected = False
        for host in silent:
            # Agents reconnect to the bus at different times.
            since = max(host.heard_at, pool.unreachable_until)
            if pool.now - since > timeout_s:
                self._ask_or_lose(host, since)

    def _ask_or_lose(
        self, host: registry.HostEntry, silent_since: float
    ) -> None:
        """Ask a silent host for a report, and lose it if it does not answer.

        Its former reports may have gone to another leader.
        """
        pool = self._pool
        if host.asked_at <= silent_since:
            host.asked_at = pool.now
            pool.outbox.send(effects.AskReport(host.uuid))
        elif pool.now - host.asked_at >= pool.settings.resend_interval_s:
            self._lose(host)

    def _lose(self, host: registry.HostEntry) -> None:
        pool = self._pool
        LOG.error(
            "Host %s (%s) has been silent for %.0f s and counts as lost",
            host.name,
            host.uuid,
            pool.now - host.heard_at,
        )
        host.up = False
        self._lost_since[host.uuid] = pool.now
        pool.outbox.write(registry.host_row(host))
        pool.tell(events.HostLost(host.id))
        self._remove_if_gone(host)

    def _check(self, hold: holds.Hold) -> None:
        """Check an assignment for timeouts."""
        pool, host = self._pool, hold.slot.host
        limits = pool.settings
        lost_at = self._lost_since.get(host.uuid)
        if lost_at is not None:
            if (
                isinstance(hold, sessions.Hold)
                and hold.is_left
                and hold.wanted
            ):
                # Its worker will not say soon how far it was.
                self._serving.move(hold.session)
            missed_s = pool.now - max(lost_at, pool.unreachable_until)
            if missed_s > limits.lost_session_timeout_s:
                self._give_up(hold)
        elif (
            hold.is_unprepared
            and not hold.revoked
            # Compares with the host's last report: while the host is silent,
            # its slot may have become ready. For an assignment of a former
            # leader, that is not known.
            and host.up
            and host.heard_at - hold.assigned_at > limits.prepare_timeout_s
        ):
            self._prepare_timed_out(hold)

    def _give_up(self, hold: holds.Hold) -> None:
        if isinstance(hold, sessions.Hold) and hold.wanted:
            self._pool.end(
                hold.session,
                states.LOST,
                codes.HOST_LOST,
                "the slot's host has not come back",
            )
        # Its work since the last report is not known.
        ended_at = max(hold.slot.host.heard_at, hold.assigned_at)
        self._serving.free(hold, ended_at)

    # -- preparations ------------------------------------------------------

    def _prepare_timed_out(self, hold: holds.Hold) -> None:
        pool = self._pool
        LOG.warning(
            "Slot %s was not prepared within %.0f s",
            hold.slot,
            pool.settings.prepare_timeout_s,
        )
        pool.outbox.send(agent_orders.release(hold, codes.PREPARE_TIMEOUT))
        # The slot is out of use until a report shows it idle: programming may
        # hang.
        hold.slot.usable = False
        pool.tell(events.SlotFaulty(hold.slot.id, codes.PREPARE_TIMEOUT))
        self.fail_preparation(
            hold,
            codes.PREPARE_TIMEOUT,
            f"not done in {pool.settings.prepare_timeout_s:.0f} s",
        )

    def fail_preparation(
        self, hold: holds.Hold, reason: str, message: str
    ) -> None:
        """Take a slot from its holder after a failed preparation.

        A session waits for another one, unless too many have failed so.

        :param reason: the code of the failure.
        :param message: what the slot's driver or agent says of it.
        """
        pool = self._pool
        # The revocation may have caused the failure.
        if not hold.revoked and reason not in codes.BITSTREAM_FAULTS:
            pool.probation.failed(hold, reason, pool.now, is_preparation=True)
        if isinstance(hold, sessions.Hold) and hold.wanted:
            cause = _for_owner(reason, message)
            if not hold.session.got_in_vain(reason):
                pool.end(
                    hold.session,
                    states.FAILED,
                    reason,
                    f"{sessions.MAX_VAIN_SLOTS} slots could not be prepared,"
                    f" the last was {hold.slot}: {cause}",
                )
                self._serving.free(hold, pool.now)
                return
            hold.failure = f"slot {hold.slot} failed: {cause}"
        pool.tell(events.PrepareFailed(hold.slot.id, hold.generation, reason))

    # -- compute nodes -----------------------------------------------------

    def _computes_seen(self, item: inputs.ComputesSeen) -> None:
        for host_uuid in sorted(item.host_uuids):
            self._set_compute(host_uuid, db_api.ComputeState.KNOWN)

    def _set_compute(self, host_uuid: str, state: db_api.ComputeState) -> None:
        pool = self._pool
        pool.outbox.write(*pool.registry.set_compute(host_uuid, state))

    def _compute_deleted(self, item: inputs.ComputeDeleted) -> None:
        """Handle a compute node that Nova has deleted.

        The operator decides about a host that still reports or has boards.
        """
        host = self._pool.registry.hosts.get(item.host_uuid)
        if host is None:
            return
        if host.up or host.devices:
            LOG.warning(
                "Nova has deleted compute node %s, but host %s %s",
                host.uuid,
                host.name,
                "is up" if host.up else "has boards here",
            )
        self._set_compute(host.uuid, db_api.ComputeState.DELETED)
        self._remove_if_gone(host)

    def _remove_if_gone(self, host: registry.HostEntry) -> None:
        """Remove a lost host without boards that Nova has deleted.

        The agent of a host that is not lost may still run.
        """
        if (
            host.compute is not db_api.ComputeState.DELETED
            or host.devices
            or host.uuid not in self._lost_since
        ):
            return
        pool = self._pool
        LOG.info("Host %s (%s) is removed", host.name, host.uuid)
        self.found(host)
        pool.outbox.write(pool.registry.forget(host))
        pool.probation.forget_gone(pool.now)


def _for_owner(reason: str, message: str) -> str:
    """Return the cause of a failure in one line, for a session's owner."""
    if reason == codes.BITSTREAM_UNTRUSTED:
        # The agent's log has details.
        return "no key that the hosts trust now has signed its bitstream"
    line = " ".join(message.removeprefix(f"{reason}: ").split())
    return line[:_MAX_CAUSE_LENGTH] or reason


def _log_clock(host: registry.HostEntry) -> None:
    if host.clock_is_wrong:
        LOG.warning(
            "The clock of host %s is %.0f s %s this one; fpgapool corrects for"
            " that, but one of them is wrong",
            host.name,
            abs(host.clock_behind_s),
            "behind" if host.clock_behind_s > 0 else "ahead of",
        )
    else:
        LOG.info("The clock of host %s agrees with this one", host.name)
