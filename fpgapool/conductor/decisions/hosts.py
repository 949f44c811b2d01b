# SPDX-License-Identifier: Apache-2.0

"""What did not happen: hosts that are silent, preparations without an end."""

from __future__ import annotations

from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool.conductor.decisions import agent_orders
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import pool as pools
from fpgapool.conductor.decisions import registry
from fpgapool.conductor.decisions import serving as servings
from fpgapool.conductor.decisions import sessions
from fpgapool.core import events
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)

# More than this share of all hosts silent at once: the bus is ill, not they.
_BUS_IS_ILL = 0.5


class Hosts:
    """Finds hosts that are lost, and takes back what they had."""

    def __init__(self, pool: pools.Pool, serving: servings.Serving) -> None:
        self._pool = pool
        self._serving = serving
        self._lost_since: dict[str, float] = {}
        self._bus_is_ill = False
        self._ticked_at: float | None = None

    @property
    def handled(self) -> Mapping[type, pools.Handler]:
        """The inputs that are handled here."""
        return {
            inputs.ComputesSeen: self._computes_seen,
            inputs.ComputeDeleted: self._compute_deleted,
        }

    def found(self, host: registry.HostEntry) -> None:
        """Note that a host is up again."""
        self._lost_since.pop(host.uuid, None)

    def tick(self) -> None:
        """Look for silent hosts, and for preparations that hang."""
        pool = self._pool
        timeout_s = pool.settings.report_timeout_s
        if (
            self._ticked_at is not None
            and pool.now - self._ticked_at > timeout_s / 2
        ):
            # This conductor stood still; what agents said waits to be read.
            pool.deaf_until = pool.now
        self._ticked_at = pool.now
        self._find_silent()
        for host in pool.registry.hosts.values():
            if host.turned_clock():
                _tell_of_clock(host)
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
        if len(silent) > _BUS_IS_ILL * len(present):
            if not self._bus_is_ill:
                LOG.warning(
                    "%d of %d hosts are silent: the message bus is"
                    " suspected, no host is given up",
                    len(silent),
                    len(present),
                )
            self._bus_is_ill = True
            pool.deaf_until = pool.now
            return
        self._bus_is_ill = False
        for host in silent:
            # Not all agents find back to the bus at the same time.
            since = max(host.heard_at, pool.deaf_until)
            if pool.now - since > timeout_s:
                self._doubt(host, since)

    def _doubt(self, host: registry.HostEntry, silent_since: float) -> None:
        """Ask a silent host, and give it up if it does not answer.

        Its reports may have gone to a former leader.
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
        self._forget_if_left(host)

    def _check(self, hold: sessions.Hold) -> None:
        """See whether an assignment waits for what will not come."""
        pool, host = self._pool, hold.slot.host
        limits = pool.settings
        lost_at = self._lost_since.get(host.uuid)
        if lost_at is not None:
            missed_s = pool.now - max(lost_at, pool.deaf_until)
            if missed_s > limits.lost_session_timeout_s:
                self._give_up(hold)
        elif (
            hold.phase is model.Phase.PREPARING
            and not hold.revoked
            and not hold.prepared
            # By the host's own word: while it cannot be heard, its slot may
            # have become ready long ago. That of another leader is not known.
            and host.up
            and host.heard_at - hold.assigned_at > limits.prepare_timeout_s
        ):
            self._prepare_timed_out(hold)

    def _give_up(self, hold: sessions.Hold) -> None:
        if hold.wanted:
            self._pool.end(
                hold.session,
                states.LOST,
                codes.HOST_LOST,
                "the slot's host has not come back",
            )
        # What it did since then is not known.
        ended_at = max(hold.slot.host.heard_at, hold.assigned_at)
        self._serving.free(hold, ended_at)

    # -- preparations ------------------------------------------------------

    def _prepare_timed_out(self, hold: sessions.Hold) -> None:
        pool = self._pool
        LOG.warning(
            "Slot %s was not prepared within %.0f s",
            hold.slot,
            pool.settings.prepare_timeout_s,
        )
        pool.outbox.send(agent_orders.release(hold, codes.PREPARE_TIMEOUT))
        # Out of use until a report shows it idle: programming may hang.
        hold.slot.usable = False
        pool.tell(events.SlotFaulty(hold.slot.id, codes.PREPARE_TIMEOUT))
        self.fail_preparation(hold, codes.PREPARE_TIMEOUT)

    def fail_preparation(self, hold: sessions.Hold, reason: str) -> None:
        """Take a slot that was not made ready from its session."""
        pool = self._pool
        # A failure may well come from being revoked.
        if not hold.revoked and reason not in codes.BITSTREAM_FAULTS:
            pool.probation.failed(hold, reason, pool.now)
            pool.tell_health()
        pool.tell(events.PrepareFailed(hold.slot.id, hold.generation, reason))

    # -- compute nodes -----------------------------------------------------

    def _computes_seen(self, item: inputs.ComputesSeen) -> None:
        for host_uuid in sorted(item.host_uuids):
            self._note_compute(host_uuid, db_api.ComputeState.KNOWN)

    def _note_compute(
        self, host_uuid: str, state: db_api.ComputeState
    ) -> None:
        pool = self._pool
        pool.outbox.write(*pool.registry.note_compute(host_uuid, state))

    def _compute_deleted(self, item: inputs.ComputeDeleted) -> None:
        """Nova has no such compute node any more.

        A host that still has anything is for the operator to decide about.
        """
        host = self._pool.registry.hosts.get(item.host_uuid)
        if host is None:
            return
        if host.up or host.devices:
            LOG.warning(
                "Nova has no compute node %s any more, but host %s %s",
                host.uuid,
                host.name,
                "is up" if host.up else "has boards here",
            )
        self._note_compute(host.uuid, db_api.ComputeState.DELETED)
        self._forget_if_left(host)

    def _forget_if_left(self, host: registry.HostEntry) -> None:
        """Forget a host that Nova has deleted, if nothing is left of it.

        Of one that has not been silent for long, an agent may still run.
        """
        if (
            host.compute is not db_api.ComputeState.DELETED
            or host.devices
            or host.uuid not in self._lost_since
        ):
            return
        pool = self._pool
        LOG.info("Host %s (%s) is forgotten", host.name, host.uuid)
        self.found(host)
        pool.outbox.write(pool.registry.forget(host))
        pool.probation.forget_gone(pool.now)
        pool.tell_health()


def _tell_of_clock(host: registry.HostEntry) -> None:
    if host.clock_is_wrong:
        LOG.warning(
            "The clock of host %s is %.0f s %s this one; fpgapool allows for"
            " that, but one of them is wrong",
            host.name,
            abs(host.clock_behind_s),
            "behind" if host.clock_behind_s > 0 else "ahead of",
        )
    else:
        LOG.info("The clock of host %s agrees with this one", host.name)
