# SPDX-License-Identifier: Apache-2.0

"""Charges projects for the use of slots."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from fpgapool import objects
from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions import usage
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.budgets import rules
from fpgapool.conductor.decisions.hardware import bitstreams
from fpgapool.conductor.decisions.requests import lives
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.vocabulary import platforms

#: Limits clients' own counts, which cannot be verified; higher than the
#: transfer rate of any slot.
_MAX_BYTES_PER_S = 2**37


@dataclasses.dataclass(eq=False, repr=False)
class Charging(parts.Room):
    """Adds time, bytes and energy to the projects' usage."""

    _catalogue: bitstreams.Catalogue
    _lives: lives.Lives
    _ledger: usage.Ledger

    def charge_group(self, hold: holds.Member, ended_at: float) -> None:
        """Charge the rest of the time for which a group held a slot."""
        self._ledger.add(
            hold.group.project_id,
            hold.accelerator,
            ended_at,
            slot_s=max(ended_at - hold.charged_at, 0.0),
            energy_j=self._energy_j(hold, ended_at),
        )

    def pending(self, hold: holds.Hold) -> rules.Amounts:
        """Return what would be charged if a slot was released now."""
        now = self._clock.now
        if isinstance(hold, holds.Member):
            slot_s, new_bytes = now - hold.charged_at, 0
        elif isinstance(hold, sessions.SessionHold) and hold.former is None:
            slot_s = now - hold.assigned_at
            new_bytes = max(
                sum(hold.reported_bytes) - sum(hold.booked_bytes), 0
            )
        else:
            return rules.NOTHING
        energy_j = self._energy_j(hold, now) or 0.0
        return rules.Amounts(max(slot_s, 0.0), new_bytes, energy_j)

    def estimate(
        self,
        claimed_bytes: int,
        profile: objects.AcceleratorProfile,
        slot_s: float,
        shapes: Iterable[str],
    ) -> rules.Amounts:
        """Return what a session would be charged.

        :param slot_s: the time for which it holds a slot.
        :param shapes: the slots that it may get; the least power counts.
        """
        powers_w = [
            power_w
            for shape in shapes
            if not profile.shapes or shape in profile.shapes
            if (power_w := platforms.active_w(profile.platforms, shape))
            is not None
        ]
        return rules.Amounts(
            slot_s,
            claimed_bytes * (1 + profile.return_ratio),
            min(powers_w, default=0.0) * slot_s,
        )

    def charge_so_far(self, hold: sessions.SessionHold) -> None:
        """Charge the bytes that the slot's host has reported so far."""
        self._ledger.add(
            hold.session.project_id,
            hold.accelerator,
            self._clock.now,
            **hold.book(*hold.reported_bytes),
        )

    def charge(
        self,
        hold: sessions.SessionHold,
        ended_at: float,
        result: objects.SessionResult | None,
    ) -> None:
        """Charge a session for a slot that is released.

        :param result: the worker's result; None: use the last report.
        """
        session = hold.session
        input_bytes, output_bytes = hold.reported_bytes
        if result is not None:
            input_bytes = max(input_bytes, result.input_bytes)
            output_bytes = max(output_bytes, result.output_bytes)
        energy_j = self._energy_j(hold, ended_at)
        self._ledger.add(
            session.project_id,
            session.accelerator,
            ended_at,
            slot_s=ended_at - hold.assigned_at,
            energy_j=energy_j,
            **hold.book(input_bytes, output_bytes),
        )
        if energy_j is not None:
            session.energy_j = (session.energy_j or 0.0) + energy_j
            self._lives.touch(session)
        self._counts.service_s.observe(ended_at - hold.assigned_at)

    def charge_late(
        self, session: sessions.Session, result: objects.SessionResult
    ) -> None:
        """Charge work that a slot did for a session that had already lost it.

        :param result: the worker's result, not applied to the session yet.
        """
        slot_s = 0.0
        if session.started_at is None and result.started_at is not None:
            # Otherwise the slot was charged when its host was declared lost.
            slot_s = max(result.finished_at - result.started_at, 0.0)
        input_bytes = session.former_input_bytes + result.input_bytes
        output_bytes = session.former_output_bytes + result.output_bytes
        self._ledger.add(
            session.project_id,
            session.accelerator,
            self._clock.now,
            slot_s=slot_s,
            input_bytes=max(input_bytes - session.input_bytes, 0),
            output_bytes=max(output_bytes - session.output_bytes, 0),
        )

    def book_unseen(
        self, session: sessions.Session, input_bytes: int, output_bytes: int
    ) -> None:
        """Charge a client's own counts, because no report can confirm them.

        These counts are limited by the session's claim, and by a rate higher
        than that of any slot.

        :param input_bytes: input bytes that all its slots processed.
        :param output_bytes: output bytes that the client received.
        """
        most = min(
            self._settings.claim_limit_bytes(session.counted_bytes)
            + session.lost_bytes,
            # Allow 1 s more, because clocks are inexact.
            int(
                (max(self._clock.now - session.queued_at, 0.0) + 1.0)
                * _MAX_BYTES_PER_S
            ),
        )
        profile = self._catalogue.profiles.get(session.accelerator)
        ratio = 1.0 if profile is None else max(profile.return_ratio, 1.0)
        known = session.input_bytes, session.output_bytes
        former = session.former_input_bytes, session.former_output_bytes
        self._counts.moved_bytes += session.update_bytes(
            min(input_bytes, most) - former[0],
            min(output_bytes, int(most * ratio)) - former[1],
        )
        if session.hold is None:
            booked = {
                "input_bytes": session.input_bytes - known[0],
                "output_bytes": session.output_bytes - known[1],
            }
        else:
            booked = session.hold.book(
                session.input_bytes - former[0],
                session.output_bytes - former[1],
            )
        self._ledger.add(
            session.project_id, session.accelerator, self._clock.now, **booked
        )

    def _energy_j(self, hold: holds.Hold, ended_at: float) -> float | None:
        """Return the measured energy, or an estimate from the platform's
        power; None if both are unknown.
        """
        if hold.energy.total_j is not None:
            return hold.energy.total_j
        profile = self._catalogue.profiles.get(hold.accelerator)
        if profile is None:
            return None
        power_w = platforms.active_w(profile.platforms, hold.slot.shape)
        if power_w is None:
            return None
        return power_w * max(ended_at - hold.assigned_at, 0.0)
