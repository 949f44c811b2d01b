# SPDX-License-Identifier: Apache-2.0

"""Makes jobs avoid the slots in which their accelerator fails."""

from collections import abc

from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.core.rules import admission

_Slots = frozenset[model.SlotId]
# A host, and the shape of its slots; an empty shape means all shapes.
_Place = tuple[model.HostId, str]


class Shunning:
    """Keeps the set of slots that each accelerator's jobs avoid."""

    def __init__(
        self, view: pool_view.PoolView, queue: admission.Admission
    ) -> None:
        self._table = view.slots
        self._records = view.jobs.records
        self._queue = queue
        self._places: dict[str, set[_Place]] = {}

    def on_faulty(self, event: events.AcceleratorFaulty) -> None:
        """Make an accelerator's jobs avoid a host's slots of a shape."""
        places = self._places.setdefault(event.accelerator, set())
        place = (event.host_id, event.shape)
        if place not in places:
            places.add(place)
            self._shun(event.accelerator)

    def on_restored(self, event: events.AcceleratorRestored) -> None:
        """Let an accelerator's jobs use these slots again."""
        places = self._places.get(event.accelerator, set())
        place = (event.host_id, event.shape)
        if place not in places:
            return
        places.remove(place)
        left = self._slots_of(places)
        self._queue.shunned[event.accelerator] = left
        if not places:
            del self._places[event.accelerator]
            del self._queue.shunned[event.accelerator]
        restored = self._slots_of([place])
        self._change(
            event.accelerator,
            list(self._records.values()),
            lambda avoided: (
                avoided
                if restored.isdisjoint(avoided)
                else admission.joined(avoided - restored, left)
            ),
        )

    def see_host(self, host_id: model.HostId) -> None:
        """Update the avoided slots after a host's slots changed."""
        for accelerator, places in self._places.items():
            if any(host_id == place[0] for place in places):
                self._shun(accelerator)

    def _shun(self, accelerator: str) -> None:
        """Update the slots that an accelerator's waiting jobs avoid."""
        shunned = self._slots_of(self._places[accelerator])
        if shunned != self._queue.shunned.get(accelerator):
            self._queue.shunned[accelerator] = shunned
            self._change(
                accelerator,
                self._queue.waiting(),
                lambda avoided: admission.joined(avoided, shunned),
            )

    def _slots_of(self, places: abc.Iterable[_Place]) -> _Slots:
        hosts = self._table.hosts
        return frozenset(
            slot.id
            for host_id, shape in places
            if host_id in hosts
            for slot in hosts[host_id].slots
            if shape in ("", slot.spec.shape)
        )

    def _change(
        self,
        accelerator: str,
        records: abc.Iterable[queued.JobRecord],
        change: abc.Callable[[_Slots], _Slots],
    ) -> None:
        """Change which slots an accelerator's jobs avoid; share equal sets."""
        changed: dict[_Slots, _Slots] = {}
        for record in records:
            if record.job.accelerator != accelerator:
                continue
            old = record.avoided
            if old not in changed:
                changed[old] = change(old)
            if changed[old] != old:
                self._queue.avoid(record, changed[old])
