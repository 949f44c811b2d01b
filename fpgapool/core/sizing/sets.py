# SPDX-License-Identifier: Apache-2.0

"""Scaling sets: elastic groups whose accelerators fit the same shapes."""

from collections.abc import Sequence

from fpgapool.core import model
from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import group as one_group
from fpgapool.vocabulary import states

# If slots are busy for this fraction of a period, their tasks/s show what the
# set can do.
_FULLY_BUSY = 0.95


class ScalingSet:
    """The state of a set, apart from its groups.

    :ivar slots: the number of slots that it may have; None: as many as its
        groups have, or as their owners requested if that is more.
    :ivar gave: whether it gave a slot to a session in this period.
    """

    def __init__(self) -> None:
        self.slots: int | None = None
        self.gave = False
        # Tasks/s per busy slot in the last period with tasks, and in the last
        # one in which all slots were busy.
        self._busy_per_slot: float | None = None
        self._full_per_slot: float | None = None

    def slots_of(self, groups: Sequence[one_group.Group]) -> int:
        """Return F, the slots that the set may have."""
        if self.slots is not None:
            return self.slots
        return max(
            sum(group.size for group in groups),
            sum(group.spec.size for group in groups),
        )

    def view(
        self, groups: Sequence[one_group.Group], period_s: float, now: float
    ) -> elasticity.View:
        return elasticity.View(
            groups=tuple(group.view(now) for group in groups),
            slots=self.slots_of(groups),
            period_s=period_s,
            capacity_per_s=self._capacity_per_s(groups),
        )

    def measure(self, groups: Sequence[one_group.Group]) -> None:
        """Measure the tasks/s that slots completed for goals."""
        last = [
            group.last
            for group in groups
            if group.last is not None
            and group.goal is not None
            and group.goal.started
        ]
        tasks = sum(one.tasks for one in last)
        tasks_s = sum(one.tasks_s for one in last)
        if not tasks or not tasks_s > 0:
            return
        self._busy_per_slot = tasks / tasks_s
        longest_s = max(one.length_s for one in last)
        busy_s = sum(one.busy_s for one in last)
        if busy_s >= _FULLY_BUSY * self._slots_for_goals(groups) * longest_s:
            self._full_per_slot = self._busy_per_slot
            for group in groups:
                group.measure_full()

    def _slots_for_goals(self, groups: Sequence[one_group.Group]) -> int:
        others = sum(group.wanted for group in groups if group.goal is None)
        return max(self.slots_of(groups) - others, 0)

    def _capacity_per_s(
        self, groups: Sequence[one_group.Group]
    ) -> float | None:
        """Return the tasks/s that all slots for goals could complete.

        If all slots share a link, the rate of a few slots is too high an
        estimate. So the rate while all were busy is an upper bound.
        """
        per_slot = self._busy_per_slot
        if per_slot is None:
            return None
        if self._full_per_slot is not None:
            per_slot = min(per_slot, self._full_per_slot)
        return per_slot * self._slots_for_goals(groups)


def members_of_sets(
    groups: Sequence[one_group.Group],
) -> dict[model.Shapes, list[one_group.Group]]:
    """Return the elastic groups of each set.

    Those that are being deleted, or have not had their first slots, are none.
    """
    found: dict[model.Shapes, list[one_group.Group]] = {}
    for group in groups:
        if (
            group.spec.elastic
            and not group.gathers
            and group.state != states.GROUP_DRAINING
        ):
            found.setdefault(group.shapes, []).append(group)
    return found
