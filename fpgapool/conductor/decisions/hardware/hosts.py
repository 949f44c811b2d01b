# SPDX-License-Identifier: Apache-2.0

"""Detects silent hosts and hanging preparations."""

from __future__ import annotations

import dataclasses
import math

from oslo_log import log as logging

from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions.assignments import agent_orders
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.assignments import serving as servings
from fpgapool.conductor.decisions.hardware import probation
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import lives
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.core import events
from fpgapool.core import state as core_state
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)

# If a larger share of hosts is silent, the message bus may have failed.
_BUS_SUSPECTED_SHARE = 0.5
# From this share of its slots on, the reserve counts as kept again. It is well
# above one half, so that the log does not repeat itself.
_KEPT_AGAIN = 0.75
# Maximum length of a driver's error in a session's message, in characters;
# every view of the session includes it.
_MAX_CAUSE_LENGTH = 400


@dataclasses.dataclass(eq=False, repr=False)
class Hosts(parts.Room):
    """Detects lost hosts, and ends their assignments."""

    _core: core_state.PoolState
    _registry: registry.Registry
    _lives: lives.Lives
    _holds: holds.Holds
    _probation: probation.Probation
    _serving: servings.Serving
    _lost_since: dict[str, float] = dataclasses.field(
        default_factory=dict, init=False
    )
    _bus_is_suspected: bool = dataclasses.field(default=False, init=False)
    _ticked_at: float = dataclasses.field(default=math.inf, init=False)
    _reserve_is_kept: bool = dataclasses.field(default=True, init=False)

    def found(self, host: registry.HostEntry) -> None:
        """Record that a host is up again."""
        self._lost_since.pop(host.uuid, None)

    def tick(self) -> None:
        """Check for silent hosts and hanging preparations."""
        timeout_s = self._settings.report_timeout_s
        if self._clock.now - self._ticked_at > timeout_s / 2:
            # This conductor was suspended; its queue may contain reports.
            self._outages.unreachable_until = self._clock.now
        self._ticked_at = self._clock.now
        self._find_silent()
        self._log_reserve()
        for host in self._registry.hosts.values():
            if host.turned_clock():
                _log_clock(host)
        for hold in list(self._holds.values()):
            if self._holds.get(hold.slot.id) is hold:
                self._check(hold)

    def _log_reserve(self) -> None:
        """Log when most of the slots for local sessions are opened to
        others, and when most are kept again.
        """
        kept, most = self._core.view.slots.kept_for_local()
        if self._reserve_is_kept and kept < most / 2:
            LOG.info(
                "Local sessions are a small part of the recent work: hosts"
                " keep %d instead of %d slots for them",
                kept,
                most,
            )
            self._reserve_is_kept = False
        elif not self._reserve_is_kept and kept > most * _KEPT_AGAIN:
            LOG.info("Hosts keep %d slots for local sessions again", kept)
            self._reserve_is_kept = True

    # -- silence -----------------------------------------------------------

    def _find_silent(self) -> None:
        timeout_s = self._settings.report_timeout_s
        present = [
            host
            for host in self._registry.hosts.values()
            if host.uuid not in self._lost_since
        ]
        silent = [
            host
            for host in present
            if host.heard_at < self._clock.now - timeout_s
        ]
        if len(silent) > _BUS_SUSPECTED_SHARE * len(present):
            if not self._bus_is_suspected:
                LOG.warning(
                    "%d of %d hosts are silent; the message bus may have"
                    " failed, so no host is marked as lost",
                    len(silent),
                    len(present),
                )
            self._bus_is_suspected = True
            self._outages.unreachable_until = self._clock.now
            return
        self._bus_is_suspected = False
        for host in silent:
            # After an outage, agents reconnect to the bus at different times.
            since = max(host.heard_at, self._outages.unreachable_until)
            if self._clock.now - since > timeout_s:
                self._ask_or_lose(host, since)

    def _ask_or_lose(
        self, host: registry.HostEntry, silent_since: float
    ) -> None:
        """Request a report from a silent host; without one, it is lost.

        Another leader may have received its previous reports.
        """
        if host.asked_at <= silent_since:
            host.asked_at = self._clock.now
            self._outbox.send(effects.AskReport(host.uuid))
        elif (
            self._clock.now - host.asked_at >= self._settings.resend_interval_s
        ):
            self._lose(host)

    def _lose(self, host: registry.HostEntry) -> None:
        LOG.error(
            "Host %s (%s) has not reported for %.0f s and is considered lost",
            host.name,
            host.uuid,
            self._clock.now - host.heard_at,
        )
        host.up = False
        self._lost_since[host.uuid] = self._clock.now
        self._outbox.write(registry.host_row(host))
        self._link.tell(events.HostLost(host.id))
        self._remove_if_gone(host)

    def _check(self, hold: holds.Hold) -> None:
        host = hold.slot.host
        limits = self._settings
        lost_at = self._lost_since.get(host.uuid)
        if lost_at is not None:
            if (
                isinstance(hold, sessions.SessionHold)
                and hold.is_left
                and hold.wanted
            ):
                # Its worker cannot report further progress.
                self._serving.move(hold.session)
            missed_s = self._clock.now - max(
                lost_at, self._outages.unreachable_until
            )
            if missed_s > limits.lost_session_timeout_s:
                self._give_up(hold)
        elif (
            hold.is_unprepared
            and not hold.revoked
            # The slot of a silent host may have become ready, so the time of
            # the last report counts. For a former leader's assignment, it is
            # unknown until the host is up.
            and host.up
            and host.heard_at - hold.assigned_at > limits.prepare_timeout_s
        ):
            self._prepare_timed_out(hold)

    def _give_up(self, hold: holds.Hold) -> None:
        if isinstance(hold, sessions.SessionHold) and hold.wanted:
            self._lives.end(
                hold.session,
                states.LOST,
                codes.HOST_LOST,
                "the slot's host did not report again",
            )
        # The work done since the last report is unknown.
        ended_at = max(hold.slot.host.heard_at, hold.assigned_at)
        self._serving.free(hold, ended_at)

    # -- preparations ------------------------------------------------------

    def _prepare_timed_out(self, hold: holds.Hold) -> None:
        with hold.about():
            LOG.warning(
                "Slot %s was not prepared within %.0f s",
                hold.slot,
                self._settings.prepare_timeout_s,
            )
        self._outbox.send(agent_orders.release(hold, codes.PREPARE_TIMEOUT))
        # Programming may still be running, so the slot is out of service until
        # a report shows that it is idle.
        hold.slot.usable = False
        self._link.tell(events.SlotFaulty(hold.slot.id, codes.PREPARE_TIMEOUT))
        self.fail_preparation(
            hold,
            codes.PREPARE_TIMEOUT,
            f"not prepared within {self._settings.prepare_timeout_s:.0f} s",
        )

    def fail_preparation(
        self, hold: holds.Hold, reason: str, message: str
    ) -> None:
        """Take a slot from its holder after a failed preparation.

        A session waits for another slot, unless this has happened too often.
        """
        # The revocation may have caused the failure.
        if not hold.revoked and reason not in codes.BITSTREAM_FAULTS:
            self._probation.failed(hold, reason, is_preparation=True)
        if isinstance(hold, sessions.SessionHold) and hold.wanted:
            cause = _for_owner(reason, message)
            if not hold.session.count_failed_slot(reason):
                self._lives.end(
                    hold.session,
                    states.FAILED,
                    reason,
                    f"{sessions.MAX_FAILED_SLOTS} slots could not be"
                    f" prepared; the last one was {hold.slot}: {cause}",
                )
                self._serving.free(hold, self._clock.now)
                return
            hold.failure = f"slot {hold.slot} failed: {cause}"
        self._link.tell(
            events.PrepareFailed(hold.slot.id, hold.generation, reason)
        )

    # -- compute nodes -----------------------------------------------------

    @parts.handles(inputs.ComputesSeen)
    def _computes_seen(self, item: inputs.ComputesSeen) -> None:
        for host_uuid in sorted(item.host_uuids):
            self._set_compute(host_uuid, db_api.ComputeState.KNOWN)

    def _set_compute(self, host_uuid: str, state: db_api.ComputeState) -> None:
        self._outbox.write(*self._registry.set_compute(host_uuid, state))

    @parts.handles(inputs.ComputeDeleted)
    def _compute_deleted(self, item: inputs.ComputeDeleted) -> None:
        """Handle a compute node that Nova has deleted.

        A host that still reports or has boards is left to the operator.
        """
        host = self._registry.hosts.get(item.host_uuid)
        if host is None:
            return
        if host.up or host.devices:
            LOG.warning(
                "Nova has deleted compute node %s, but host %s %s",
                host.uuid,
                host.name,
                "is up" if host.up else "still has boards",
            )
        self._set_compute(host.uuid, db_api.ComputeState.DELETED)
        self._remove_if_gone(host)

    def _remove_if_gone(self, host: registry.HostEntry) -> None:
        """Remove a lost host without boards if Nova has deleted it.

        The agent of a host that is not lost may still be running.
        """
        if (
            host.compute is not db_api.ComputeState.DELETED
            or host.devices
            or host.uuid not in self._lost_since
        ):
            return
        LOG.info("Host %s (%s) has been removed", host.name, host.uuid)
        self.found(host)
        self._outbox.write(self._registry.forget(host))
        self._probation.forget_gone()


def _for_owner(reason: str, message: str) -> str:
    if reason == codes.BITSTREAM_UNTRUSTED:
        # The agent's log contains the details.
        return "the bitstream is not signed with a key that the hosts trust"
    line = " ".join(message.removeprefix(f"{reason}: ").split())
    return line[:_MAX_CAUSE_LENGTH] or reason


def _log_clock(host: registry.HostEntry) -> None:
    if host.clock_is_wrong:
        LOG.warning(
            "The clock of host %s is %.0f s %s the conductor's; fpgapool"
            " corrects for the difference, but one of the clocks is wrong",
            host.name,
            abs(host.clock_behind_s),
            "behind" if host.clock_behind_s > 0 else "ahead of",
        )
    else:
        LOG.info("The clock of host %s is correct again", host.name)
