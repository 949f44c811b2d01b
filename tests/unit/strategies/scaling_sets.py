# SPDX-License-Identifier: Apache-2.0

"""Scaling sets as policies see them."""

from __future__ import annotations

import typing

from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import goals


def make_group(
    group_id: int,
    size: int,
    *,
    min_size: int = 1,
    max_size: int = 8,
    **more: typing.Any,
) -> elasticity.GroupView:
    """A group that has the size that it should have."""
    more.setdefault("wanted", size)
    return elasticity.GroupView(
        id=group_id, size=size, min_size=min_size, max_size=max_size, **more
    )


def make_working(
    group_id: int, size: int, waiting_s: float, **more: typing.Any
) -> elasticity.GroupView:
    """A group with waiting tasks; none came in the last period."""
    more.setdefault("arrived_s", 0.0)
    more.setdefault("expected_s", 0.0)
    return make_group(group_id, size, waiting_s=waiting_s, **more)


def make_rate(
    group_id: int,
    size: int,
    *,
    progress: float,
    asked: int,
    short_size: int | None = None,
    started: bool = True,
    **more: typing.Any,
) -> elasticity.GroupView:
    """A group whose goal is 10 tasks/s."""
    return make_group(
        group_id,
        size,
        goal=goals.State(
            goal=goals.Goal(rate_per_s=10.0),
            registered_s=0.0,
            started=started,
            rate_per_s=10 * progress,
            slots_per_rate=asked / 10,
            short_size=short_size,
        ),
        **more,
    )


def make_due(
    group_id: int,
    size: int,
    *,
    due_s: float = 10.0,
    actions: int = 100,
    progress: float = 1.0,
    asked: int = 1,
    registered_s: float = 0.0,
    started: bool = True,
    **more: typing.Any,
) -> elasticity.GroupView:
    """A group with a deadline; its progress is that at the time 0."""
    needed_per_s = actions / due_s
    return make_group(
        group_id,
        size,
        goal=goals.State(
            goal=goals.Goal(deadline_s=due_s, actions=actions),
            registered_s=registered_s,
            started=started,
            rate_per_s=needed_per_s * progress,
            slots_per_rate=asked / needed_per_s,
        ),
        **more,
    )


def make_view(
    *groups: elasticity.GroupView,
    slots: int | None = None,
    period_s: float = 10.0,
    capacity_per_s: float | None = None,
) -> elasticity.View:
    """A set of these groups, with their slots only unless said otherwise."""
    return elasticity.View(
        groups=groups,
        slots=sum(group.size for group in groups) if slots is None else slots,
        period_s=period_s,
        capacity_per_s=capacity_per_s,
    )
