# SPDX-License-Identifier: Apache-2.0

"""Jobs avoid the slots of hosts on which their accelerator fails."""

from collections import abc

from fpgapool.core import admission
from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core import queued
from fpgapool.core import view as pool_view

_Slots = frozenset[model.SlotId]


class Shunning:
    """Keeps the set of slots that each accelerator's jobs avoid."""

    def __init__(
        self, view: pool_view.PoolView, queue: admission.Admission
    ) -> None:
        self._table = view.slots
        self._records = view.jobs.records
        self._queue = queue
        self._hosts: dict[str, set[model.HostId]] = {}

    def on_faulty(self, event: events.AcceleratorFaulty) -> None:
        """Keep an accelerator off a host."""
        hosts = self._hosts.setdefault(event.accelerator, set())
        if event.host_id not in hosts:
            hosts.add(event.host_id)
            self._shun(event.accelerator)

    def on_restored(self, event: events.AcceleratorRestored) -> None:
        """Allow an accelerator on a host again."""
        hosts = self._hosts.get(event.accelerator, set())
        if event.host_id not in hosts:
            return
        hosts.remove(event.host_id)
        left = self._slots_of(hosts)
        self._queue.shunned[event.accelerator] = left
        if not hosts:
            del self._hosts[event.accelerator]
            del self._queue.shunned[event.accelerator]
        restored = self._slots_of([event.host_id])
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
        for accelerator, hosts in self._hosts.items():
            if host_id in hosts:
                self._shun(accelerator)

    def _shun(self, accelerator: str) -> None:
        """Update the slots that an accelerator's waiting jobs avoid."""
        shunned = self._slots_of(self._hosts[accelerator])
        if shunned != self._queue.shunned.get(accelerator):
            self._queue.shunned[accelerator] = shunned
            self._change(
                accelerator,
                self._queue.waiting(),
                lambda avoided: admission.joined(avoided, shunned),
            )

    def _slots_of(self, host_ids: abc.Iterable[model.HostId]) -> _Slots:
        hosts = map(self._table.hosts.get, host_ids)
        return frozenset(
            slot.id
            for host in hosts
            if host is not None
            for slot in host.slots
        )

    def _change(
        self,
        accelerator: str,
        records: abc.Iterable[queued.JobRecord],
        change: abc.Callable[[_Slots], _Slots],
    ) -> None:
        """Change the avoided slots of an accelerator's jobs, sharing sets."""
        changed: dict[_Slots, _Slots] = {}
        for record in records:
            if record.job.accelerator != accelerator:
                continue
            old = record.avoided
            if old not in changed:
                changed[old] = change(old)
            if changed[old] != old:
                self._queue.avoid(record, changed[old])
