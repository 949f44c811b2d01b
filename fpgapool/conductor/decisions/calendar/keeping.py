# SPDX-License-Identifier: Apache-2.0

"""Makes, changes, begins and ends reservations by calendar."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from oslo_log import log as logging

from fpgapool.common import exception
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions.calendar import book
from fpgapool.conductor.decisions.hardware import bitstreams
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import quotas
from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core.topology import slots as core_slots
from fpgapool.db import calendar as stored
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import reservation

LOG = logging.getLogger(__name__)

# Used and unused time is stored so often.
_STORED_EVERY_S = 60.0
_RUNNING = (reservation.ACTIVE, reservation.FAILED)
# States in which it has fewer slots than promised.
_SHORT = (reservation.AT_RISK, reservation.FAILED)
# Reservations without enough slots for which others are sought in one tick.
_MOVED_AT_ONCE = 16


@dataclasses.dataclass(eq=False, repr=False)
class CalendarKeeping(parts.Room):
    """Keeps the promises of the calendar, or tells their owners.

    It looks at all reservations in each tick.
    """

    _calendar: book.Calendar
    _registry: registry.Registry
    _catalogue: bitstreams.Catalogue
    _quotas: quotas.QuotaBook
    _told: events.CalendarChanged = dataclasses.field(
        default_factory=events.CalendarChanged, init=False
    )
    #: Hosts that have not reported since a takeover are trusted until then.
    _trusts_until: float = dataclasses.field(default=-math.inf, init=False)
    _looked_at: float = dataclasses.field(default=math.inf, init=False)
    _stored_at: float = dataclasses.field(default=-math.inf, init=False)
    #: The next of those without enough slots for which others are sought.
    _turn: int = dataclasses.field(default=0, init=False)

    def restore(self) -> None:
        """Tell the core what a former leader has promised."""
        now = self._clock.now
        self._trusts_until = now + 2 * self._settings.report_timeout_s
        self._looked_at = self._stored_at = now
        for entry in self._calendar.live():
            # Nobody could use its slots without a leader.
            if entry.state in _RUNNING:
                entry.used_at = now
        self.look()

    # -- changes -----------------------------------------------------------

    @parts.handles(inputs.SetReservation)
    def _set(self, item: inputs.SetReservation) -> None:
        self._answer_change(item.future, lambda: self._change(item))

    def _change(self, item: inputs.SetReservation) -> None:
        entry = self._calendar.entries.get(item.reservation_id)
        if item.wanted is None:
            if entry is None:
                raise exception.ReservationNotFound(
                    reservation_id=item.reservation_id
                )
            self._remove(entry)
        elif entry is None:
            self._create(item, item.wanted)
        else:
            self._update(entry, item.wanted, exempt=item.exempt)
        self.look()

    def _create(
        self, item: inputs.SetReservation, given: Mapping[str, Any]
    ) -> None:
        if not item.project_id:
            # It was deleted since the caller has seen it.
            raise exception.ReservationNotFound(
                reservation_id=item.reservation_id
            )
        wanted = self._known(_checked(given), item.project_id)
        owner = book.Owner(item.project_id, item.user_id)
        entry = self._calendar.new(
            item.reservation_id, owner, wanted, self._clock.now
        )
        self._admit(entry, exempt=item.exempt)
        LOG.info(
            "Project %s has reserved %d slots: reservation %s",
            entry.project_id,
            entry.slots,
            entry.id,
        )

    def _update(
        self,
        entry: stored.Reservation,
        change: Mapping[str, Any],
        *,
        exempt: bool,
    ) -> None:
        now = self._clock.now
        if entry.is_over:
            raise _invalid("it is over")
        begun = entry.start_s <= now
        try:
            checked = reservation.changed(entry.wanted, change, begun=begun)
        except reservation.Invalid as error:
            raise _invalid(str(error)) from error
        # What does not change may name a host that is gone.
        named = {name: checked[name] for name in change}
        wanted = checked | self._known(named, entry.project_id)
        self._admit(self._calendar.changed(entry, wanted), exempt=exempt)

    def _known(
        self, wanted: dict[str, Any], project_id: str
    ) -> dict[str, Any]:
        """Check the names in a request; return it with the accelerator's key.

        :raises FpgapoolException: if the pool does not know one of them.
        """
        for host_uuid in wanted.get("host_uuids", ()):
            if host_uuid not in self._registry.hosts:
                raise exception.HostNotFound(host_uuid=host_uuid)
        device_id = wanted.get("device_id")
        if device_id and self._registry.find_device(device_id) is None:
            raise exception.DeviceNotFound(
                device=device_id, host_uuid="any host"
            )
        name = wanted.get("accelerator")
        if name is None:
            return wanted
        known, key = self._catalogue.resolve(name, project_id)
        admission.check_accelerator(key, self._registry, known)
        return {**wanted, "accelerator": key}

    def _admit(self, entry: stored.Reservation, *, exempt: bool) -> None:
        calendar = self._calendar
        if not exempt:
            self._check_quota(entry)
        found: dict[object, frozenset[int]] = {}

        def fitting(one: stored.Reservation) -> frozenset[int]:
            # Many want the same.
            wanted = one.accelerator, one.host_uuids, one.device_id
            if wanted not in found:
                found[wanted] = self._fitting(one)
            return found[wanted]

        slots = self._slots(entry)
        for one in calendar.admit(entry, fitting, slots, self._clock.now):
            self._outbox.write(stored.row(one))

    def _check_quota(self, entry: stored.Reservation) -> None:
        quota = self._quotas.of(entry.project_id)
        former = self._calendar.entries.get(entry.id)
        if former is not None and not book.asks_more(entry, former):
            return
        others = [
            one
            for one in self._calendar.live()
            if one.project_id == entry.project_id and one.id != entry.id
        ]
        for name in "slots", "times":
            limit: int | None = getattr(quota, f"reservation_{name}")
            wanted: int = getattr(entry, name)
            used = sum(getattr(one, name) for one in others)
            if limit is not None and used + wanted > limit:
                raise admission.Rejected(
                    codes.QUOTA_EXCEEDED,
                    f"the project's quota reservation_{name} is {limit}; it"
                    f" has reserved {used} {name}, and this reservation has"
                    f" {wanted}",
                )

    def _remove(self, entry: stored.Reservation) -> None:
        LOG.info("Reservation %s was deleted", entry.id)
        self._calendar.remove(entry)
        self._outbox.write(stored.empty_row(entry.number))

    # -- the pool ----------------------------------------------------------

    def _slots(self, entry: stored.Reservation | None = None) -> book.Slots:
        """Describe the pool's slots.

        :param entry: a reservation whose own slots do not count as held.
        """
        hold_s = self._settings.max_hold_s
        within_s = math.inf
        if hold_s > 0:
            within_s = hold_s + (
                self._settings.prepare_timeout_s
                + self._settings.connect_timeout_s
                + self._settings.resend_interval_s
            )
        own: frozenset[int] = frozenset()
        if entry is not None and entry.start_s <= self._clock.now:
            own = frozenset(entry.bound)
        view = self._core.view
        return book.Slots(
            {
                slot_id: hold.started_s + within_s + book.AHEAD_S
                for slot_id, hold in view.slots.assignments.items()
                if slot_id not in own
                and hold.record is not None
                and hold.group_id is None
                and hold.phase is not model.Phase.PREPARING
                and not hold.revoked
                and not view.is_stateless(hold.accelerator)
            },
            within_s,
        )

    def _fitting(self, entry: stored.Reservation) -> frozenset[int]:
        """Return the working slots that a reservation may have."""
        found: set[int] = set()
        for device in self._devices(entry):
            numbers = sorted(device.slots)
            # Instances get the highest numbers first.
            most = len(numbers) - device.reservable_slots
            for number in numbers[: max(most, 0)]:
                slot = device.slots[number]
                if slot.reserved_for is None and self._works(slot.id, entry):
                    found.add(slot.id)
        return frozenset(found)

    def _devices(
        self, entry: stored.Reservation
    ) -> Iterable[registry.DeviceEntry]:
        if entry.device_id:
            device = self._registry.find_device(entry.device_id)
            return [] if device is None else [device]
        hosts = self._registry.hosts
        wanted = entry.host_uuids or hosts
        return [
            device
            for host_uuid in wanted
            if host_uuid in hosts
            for device in hosts[host_uuid].devices.values()
        ]

    def _works(self, slot_id: int, entry: stored.Reservation) -> bool:
        accelerator = self._core.view.accelerators.get(entry.accelerator)
        known = self._registry.slots.get(slot_id)
        if accelerator is None or known is None or known.missing:
            return False
        slot = self._core.view.slots.slots.get(slot_id)
        if slot is not None and slot.host.up:
            return slot.is_usable and accelerator.fits(slot.spec.shape)
        return self._clock.now < self._trusts_until and not known.faulty

    def working(self, entry: stored.Reservation) -> frozenset[int]:
        """Return the slots of a reservation that work."""
        return frozenset(
            slot_id for slot_id in entry.bound if self._works(slot_id, entry)
        )

    # -- looking -----------------------------------------------------------

    def look(self) -> None:
        """Begin and end what is due, and look after all promises."""
        calendar, now = self._calendar, self._clock.now
        passed_s = max(now - self._looked_at, 0.0)
        self._looked_at = now
        if calendar.entries:
            stores = now - self._stored_at >= _STORED_EVERY_S
            if stores:
                self._stored_at = now
            works = {one.id: self.working(one) for one in calendar.live()}
            moved = self._to_move(works)
            for entry in calendar.live():
                self._count(entry, passed_s)
                before = _durable(entry)
                working = works[entry.id]
                if entry.id in moved:
                    working = self._move(entry, working)
                entry.working = len(working)
                self._advance(entry)
                if entry.state != before[0]:
                    self._note(entry)
                runs = entry.state in _RUNNING
                if _durable(entry) != before or (stores and runs):
                    self._outbox.write(stored.row(entry))
            for entry in calendar.outdated(now):
                self._remove(entry)
        told = calendar.event(self._slots(), now) if calendar.entries else None
        told = told or events.CalendarChanged()
        if told != self._told:
            self._told = told
            self._link.tell(told)

    def _to_move(self, works: Mapping[str, frozenset[int]]) -> set[str]:
        """Return the reservations for which other slots are sought now.

        Those that have just lost slots come first; the others take turns.

        :param works: the working slots of each reservation.
        """
        lost: list[str] = []
        known: list[str] = []
        for id_, working in works.items():
            entry = self._calendar.entries[id_]
            if len(working) < entry.slots:
                (known if entry.state in _SHORT else lost).append(id_)
        found = lost[:_MOVED_AT_ONCE]
        if known:
            first = self._turn % len(known)
            in_turn = known[first:] + known[:first]
            left = _MOVED_AT_ONCE - len(found)
            found += in_turn[:left]
            self._turn = first + left
        return set(found)

    def _move(
        self, entry: stored.Reservation, working: frozenset[int]
    ) -> frozenset[int]:
        """Give a reservation other slots for those that do not work."""
        if self._calendar.move(
            entry,
            working,
            self._fitting(entry),
            self._slots(),
            self._clock.now,
        ):
            LOG.info("Reservation %s has other slots now", entry.id)
            return self.working(entry)
        return working

    def _count(self, entry: stored.Reservation, passed_s: float) -> None:
        """Count used and unused time."""
        if entry.state not in _RUNNING:
            return
        held = sum(
            self._is_used(self._core.hold(slot_id), entry)
            for slot_id in entry.bound
        )
        entry.used_slot_s += held * passed_s
        entry.unused_slot_s += max(entry.working - held, 0) * passed_s
        if held or entry.working < entry.slots:
            entry.used_at = self._clock.now

    def _is_used(
        self, hold: core_slots.Hold | None, entry: stored.Reservation
    ) -> bool:
        return (
            hold is not None
            and hold.record is not None
            and hold.record.job.project == entry.project_id
            and hold.accelerator == entry.accelerator
        )

    def _advance(self, entry: stored.Reservation) -> None:
        """Set the state that a reservation has now."""
        now, enough = self._clock.now, entry.working >= entry.slots
        if now >= entry.end_s:
            if entry.times == 1:
                self._calendar.end(entry, now)
                return
            while entry.times > 1 and now >= entry.end_s:
                self._calendar.begin_next(entry)
            entry.state = reservation.SCHEDULED
        if now < entry.start_s:
            entry.state = (
                reservation.SCHEDULED if enough else reservation.AT_RISK
            )
            return
        if entry.state == reservation.RELEASED:
            return
        idle_s = now - max(entry.start_s, entry.used_at, entry.created_at)
        if enough and 0 < entry.grace_s <= idle_s:
            entry.state = reservation.RELEASED
            return
        entry.state = reservation.ACTIVE if enough else reservation.FAILED

    def _note(self, entry: stored.Reservation) -> None:
        """Log a new state, whose row makes a notification."""
        LOG.log(
            logging.WARNING if entry.state in _SHORT else logging.INFO,
            "Reservation %s of project %s is %s",
            entry.id,
            entry.project_id,
            entry.state,
        )

    # -- questions ---------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """Return the numbers of reservations by state."""
        found = dict.fromkeys(reservation.STATES, 0)
        for entry in self._calendar.entries.values():
            found[entry.state] += 1
        return found


def _durable(entry: stored.Reservation) -> tuple[object, ...]:
    """Return what is stored at once when it changes."""
    return entry.state, entry.working, entry.bound, entry.start_s


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return reservation.checked(given)
    except reservation.Invalid as error:
        raise _invalid(str(error)) from error


def _invalid(reason: str) -> admission.Rejected:
    return admission.Rejected(codes.INVALID_RESERVATION, reason)
