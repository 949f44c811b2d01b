# SPDX-License-Identifier: Apache-2.0

"""Indexes over idle slots."""

import bisect
import collections
import itertools
import operator
import typing
from collections import abc

from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core import ordered
from fpgapool.core import preferences
from fpgapool.core.topology import boards as idle_boards
from fpgapool.core.topology import slots

_NUMBER = operator.attrgetter("number")


@native.mypyc_attr(allow_interpreted_subclasses=True)
class IdleSlots:
    """The idle slots of a table, which reports slots that become idle or busy.

    :ivar reserved_idle: the usable reserved slots without a holder, by
        instance.
    """

    def __init__(
        self,
        strategy: preferences.Preferences,
        boards: idle_boards.Boards | None,
    ) -> None:
        self._boards = boards
        self._by_busy = strategy.idle_indexes.by_busy
        self._by_programmed = strategy.idle_indexes.by_programmed
        self._by_slot = strategy.idle_indexes.by_slot
        self.slots: dict[model.SlotId, slots.Slot] = {}
        self.assignments: dict[model.SlotId, slots.Hold] = {}
        self.idle_hosts: dict[model.HostId, slots.Host] = {}
        self.idle_total = 0
        self.idle_by_shape: collections.Counter[str] = collections.Counter()
        self.reserved_idle: dict[str, dict[model.SlotId, slots.Slot]] = {}
        # Updated only when read: most slots that become idle are assigned
        # again at once.
        self._hosts_by_bucket: dict[slots.Bucket, ordered.SortedKeys] = {}
        self._changed_hosts: list[slots.Host] = []
        self._slots_by_bucket: dict[
            str | slots.ProgrammedBucket, ordered.SortedKeys
        ] = {}

    def idle_count(self, shapes: model.Shapes) -> int:
        """Return the number of idle slots of these shapes."""
        if not shapes:
            return self.idle_total
        return sum(self.idle_by_shape[shape] for shape in shapes)

    def idle_shapes(self) -> list[str]:
        """Return the shapes of idle slots."""
        return [shape for shape, n in self.idle_by_shape.items() if n]

    def hosts_in(self, bucket: slots.Bucket) -> ordered.SortedKeys | None:
        """Return the ranks of the hosts that have idle slots of this kind."""
        while self._changed_hosts:
            self._relist(self._changed_hosts.pop())
        return self._hosts_by_bucket.get(bucket)

    def slots_in(
        self, bucket: str | slots.ProgrammedBucket
    ) -> ordered.SortedKeys | None:
        """Return the positions of the idle slots of a bucket."""
        return self._slots_by_bucket.get(bucket)

    def is_idle(self, slot_id: model.SlotId) -> bool:
        """Return whether a slot is known, up and free."""
        slot = self.slots.get(slot_id)
        return slot is not None and slot.up and slot_id not in self.assignments

    def idle_slots(self) -> abc.Iterator[slots.Slot]:
        return itertools.chain.from_iterable(
            [
                self.idle_hosts[host_id].idle
                for host_id in sorted(self.idle_hosts)
            ]
        )

    def hide(self, slot: slots.Slot) -> None:
        """Hide an idle slot from strategies, until :meth:`show`."""
        self._unset_idle(slot)
        self._changed(slot.host)

    def show(self, slot: slots.Slot) -> None:
        """Undo :meth:`hide`; the slot is still idle."""
        self._set_idle(slot)
        self._changed(slot.host)

    def _unset_idle(self, slot: slots.Slot) -> None:
        host = slot.host
        host.idle.remove(slot)
        if not host.idle:
            del self.idle_hosts[host.id]
        self._count_idle(slot, -1)

    def _set_idle(self, slot: slots.Slot) -> None:
        host = slot.host
        idle = host.idle
        if idle:
            bisect.insort(idle, slot, key=_NUMBER)
        else:
            idle.append(slot)
            self.idle_hosts[host.id] = host
        self._count_idle(slot, 1)

    def _note_reserved_idle(self, slot: slots.Slot) -> None:
        if slot.reserved_for is not None:
            own = self.reserved_idle.setdefault(slot.reserved_for, {})
            own[slot.id] = slot

    def _forget_reserved_idle(self, slot: slots.Slot) -> None:
        instance_id = slot.reserved_for or ""
        own = self.reserved_idle.get(instance_id, {})
        if slot.id in own:
            del own[slot.id]
            if not own:
                del self.reserved_idle[instance_id]

    def _count_idle(self, slot: slots.Slot, change: int) -> None:
        self.idle_total += change
        self.idle_by_shape[slot.shape] += change
        if self._by_slot:
            self._index_slot(slot, change > 0)
        if self._boards is not None:
            if change > 0:
                self._boards.add(slot)
            else:
                self._boards.remove(slot)

    def _index_slot(self, slot: slots.Slot, idle: bool) -> None:
        buckets: list[str | slots.ProgrammedBucket] = [slot.shape]
        if self._by_programmed:
            buckets.append((slot.shape, slot.program_tag()))
        for bucket in buckets:
            _change(self._slots_by_bucket, bucket, slot.position, idle)

    def _changed(self, host: slots.Host) -> None:
        """Mark a host whose entries in the indexes may be outdated."""
        if host.is_listed:
            host.is_listed = False
            self._changed_hosts.append(host)

    def _relist(self, host: slots.Host) -> None:
        """Update a host's entries in the indexes."""
        host.is_listed = True
        rank, is_open = host.rank, host.is_open
        wanted: dict[slots.Bucket, ordered.Key] = {}
        for slot in host.idle:
            wanted[slot.shape, is_open] = rank
            if self._by_programmed:
                wanted[slot.shape, slot.program_tag()] = rank
        entries = host.entries
        if wanted == entries:
            return
        for bucket, key in entries.items():
            if wanted.get(bucket) != key:
                _change(self._hosts_by_bucket, bucket, key, False)
        for bucket, key in wanted.items():
            if entries.get(bucket) != key:
                _change(self._hosts_by_bucket, bucket, key, True)
        host.entries = wanted


def _change(
    index: dict[typing.Any, ordered.SortedKeys],
    bucket: abc.Hashable,
    key: ordered.Key,
    present: bool,
) -> None:
    keys = index.get(bucket)
    if keys is None:
        keys = index[bucket] = ordered.SortedKeys()
    if present:
        keys.add(key)
        return
    # Keep empty buckets: there are few, and they are soon used again.
    keys.remove(key)
