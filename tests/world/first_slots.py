# SPDX-License-Identifier: Apache-2.0

"""What must hold in a world of groups whose first slots come all at once."""

from __future__ import annotations

from fpgapool.conductor.decisions import engine
from fpgapool.conductor.decisions.requests import first_slots as product
from fpgapool.conductor.decisions.requests import groups
from fpgapool.core import model
from fpgapool.core.rules import holders
from fpgapool.core.rules import set_places
from fpgapool.core.topology import slots
from fpgapool.db import api as db_api
from fpgapool.vocabulary import states
from tests.world import invariants
from tests.world import planting
from tests.world import sets

check = invariants.check


class Watcher:
    """Watches the groups of a world, from outside."""

    def __init__(self, watcher: invariants.Watcher) -> None:
        self._watcher = watcher
        #: How many slots each gets at once.
        self._wanted: dict[str, int] = {}
        #: The groups that have had their first slots.
        self._started: set[str] = set()

    def install(self) -> None:
        """Watch from now on, for good."""
        for name in ("start", "process", "tick"):
            self._watcher.wrap(engine.Engine, name, self._stepped)
        self._watcher.wrap(groups.Groups, "_created", self._created)

    def _created(
        self,
        _none: None,
        _room: groups.Groups,
        group: db_api.GroupRecord,
        first: product.FirstSlots | None,
    ) -> None:
        if first is not None:
            self._wanted[group.group_id] = group.min_size

    def _stepped(
        self, _effects: object, brain: engine.Engine, *_args: object
    ) -> None:
        if not self._wanted:
            return
        members: dict[str, list[model.Phase]] = {}
        for one in brain.pool.holds.members():
            members.setdefault(one.public_id, []).append(one.phase)
        for group_id, group in brain.pool.groups.groups.items():
            count = self._wanted.get(group_id)
            if count is None or group_id in self._started:
                continue
            phases = members.get(group_id, [])
            about = group_id, group.state, phases
            if group.state != states.GROUP_CREATING:
                self._started.add(group_id)
                continue
            check(
                len(phases) in (0, count),
                "a group has some of its first slots",
                *about,
            )
            check(
                set(phases) <= {model.Phase.PREPARING},
                "a group has begun without some of its first slots",
                *about,
            )


_bug = planting.of_part("groups")


@_bug("a group has begun without some of its first slots")
def first_slots_serve_one_by_one() -> None:
    note = holders.Holders._note_ready

    def hasty(
        holding: holders.Holders,
        one: set_places.SessionSet,
        ready: slots.Hold,
    ) -> None:
        if one.group_id is None:
            note(holding, one, ready)
            return
        sets.use_alone(holding, one, ready)

    holders.Holders._note_ready = hasty  # type: ignore[method-assign]


@_bug("a group has some of its first slots")
def a_new_leader_gives_first_slots_one_by_one() -> None:
    product.waits = lambda *_args: False
