# SPDX-License-Identifier: Apache-2.0

"""What the live page knows of the last two hours.

Each process of the API samples the pool for itself, once for all viewers, from
its start on. The samples are figures of the whole pool, so all processes have
about the same.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from fpgapool.db import inventory
from fpgapool.vocabulary import states

_MOST_SAMPLES = 720
_MOST_EVENTS = 1000
# So many events of a kind at once are shown one by one.
_MOST_ALIKE = 5
# Hosts report every few seconds. Rates over shorter times would jump.
_RATE_S = 30.0

#: Members of samples that are means over the last time.
RATES = ("bytes_per_s", "wait_s")

Hardware = Mapping[str, tuple[str, str]]


class Event(NamedTuple):
    """Something that happened to a part of the pool.

    :ivar place: path of the part within the live page; empty: the pool.
    """

    at: float
    kind: str
    what: str
    text: str
    place: str


class _Totals(NamedTuple):
    """Sums since the leader's start; None: the leader does not tell."""

    at: float
    moved_bytes: int | None
    waits: int | None
    waited_s: float | None


class Memory:
    """A bounded record of samples and events; thread-safe.

    Times are in seconds since the epoch.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: collections.deque[dict[str, Any]] = collections.deque(
            maxlen=_MOST_SAMPLES
        )
        self._events: collections.deque[Event] = collections.deque(
            maxlen=_MOST_EVENTS
        )
        self._totals: collections.deque[_Totals] = collections.deque()
        self._hardware: Hardware | None = None
        self._leads: bool | None = None

    def note_counts(
        self, at: float, counts: Mapping[str, Any], *, leads: bool
    ) -> None:
        """Add a sample.

        :param counts: the pool in numbers; see
            :meth:`fpgapool.api.call.Backends.pool_counts`.
        :param leads: whether a conductor has answered.
        """
        slots: collections.Counter[str] = collections.Counter()
        for by_state in counts["slots"].values():
            slots.update(by_state)
        totals = _Totals(
            at,
            counts.get("moved_bytes"),
            counts.get("waits"),
            counts.get("waited_s"),
        )
        sample = {
            "at": at,
            "waiting": counts["sessions"].get(states.QUEUED, 0),
            "hosts_up": counts["hosts_up"],
            "slots": dict(slots),
            **self._rates(totals),
        }
        with self._lock:
            self._samples.append(sample)
            if self._leads not in (None, leads):
                text = f"{'a' if leads else 'no'} conductor answers"
                self._events.append(Event(at, "conductor", "", text, ""))
            self._leads = leads

    def _rates(self, now: _Totals) -> dict[str, float | None]:
        """Return the means over the last time, as far as they are known."""
        kept = self._totals
        while kept and now.at - kept[0].at > _RATE_S:
            kept.popleft()
        first = kept[0] if kept else now
        if (now.moved_bytes or 0) < (first.moved_bytes or 0):
            # Another conductor leads, and counts from 0.
            kept.clear()
            first = now
        kept.append(now)
        passed_s = now.at - first.at
        if passed_s <= 0 or now.moved_bytes is None:
            return dict.fromkeys(RATES)
        waits = (now.waits or 0) - (first.waits or 0)
        return {
            "bytes_per_s": (now.moved_bytes - (first.moved_bytes or 0))
            / passed_s,
            "wait_s": (
                ((now.waited_s or 0.0) - (first.waited_s or 0.0)) / waits
                if waits > 0
                else None
            ),
        }

    def note_hardware(self, at: float, now: Hardware) -> None:
        """Compare the hardware with what it was; differences are events.

        :param now: by the path of each part within the live page, its name
            and its state.
        """
        with self._lock:
            before, self._hardware = self._hardware, dict(now)
            if before is not None:
                self._events.extend(_differences(at, before, now))

    def recall(self, since: float) -> tuple[list[dict[str, Any]], list[Event]]:
        """Return the samples and events after a time."""
        with self._lock:
            return (
                [one for one in self._samples if one["at"] > since],
                [one for one in self._events if one.at > since],
            )


def hardware_of(pool: inventory.Inventory) -> Hardware:
    """Return the states of hosts and boards, and of slots that are faulty.

    Sessions take and leave slots all the time; that is no event.
    """
    found: dict[str, tuple[str, str]] = {}
    for host in pool.hosts:
        up = states.UP if host.up else states.DOWN
        is_on = host.admin_state == states.ENABLED
        found[f"hosts/{host.uuid}"] = (
            f"host {host.name}",
            up if is_on else f"{up}, {host.admin_state}",
        )
    for device in pool.devices:
        name = f"{device.host.name}, {device.record.name}"
        state = device.state
        # Its host says so.
        state = states.UP if state == states.DOWN else state
        found[f"devices/{device.id}"] = f"board {name}", state
    for slot in pool.slots:
        device = slot.device
        name = f"{device.host.name}, {device.record.name}"
        found[f"slots/{slot.id}"] = (
            f"slot {slot.record.number} of {name}",
            states.FAULTY if slot.record.faulty else states.UP,
        )
    return found


def _differences(
    at: float, before: Hardware, now: Hardware
) -> Iterator[Event]:
    """Return the events between two states; many alike become one."""
    alike: dict[tuple[str, str], list[Event]] = collections.defaultdict(list)
    for place in {**before, **now}:
        old, new = before.get(place), now.get(place)
        if old == new:
            continue
        name, state = new or old or ("", "")
        if new is None:
            text = "removed"
        elif old is None:
            text = f"new: {state}"
        else:
            text = f"{old[1]} → {state}"
        kind = place.partition("/")[0].removesuffix("s")
        alike[kind, text].append(Event(at, kind, name, text, place))
    for (kind, text), found in alike.items():
        if len(found) <= _MOST_ALIKE:
            yield from found
        else:
            names = ", ".join(one.what for one in found[:_MOST_ALIKE])
            what = f"{len(found)} {kind}s: {names}, …"
            yield Event(at, kind, what, text, "")
