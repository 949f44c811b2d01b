# SPDX-License-Identifier: Apache-2.0

"""The bugs that there are to plant: :mod:`tests.world.bugs` has all of them.

A part of worlds has its own beside its invariants.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable

if typing.TYPE_CHECKING:
    from tests.world import run

_Plant = Callable[[], None]


@dataclasses.dataclass(frozen=True)
class Bug:
    """A bug.

    :ivar problem: a part of what the world says of it.
    :ivar part: the part that all schedules have which may show it; None: it
        is in what all worlds have.
    """

    plant: _Plant
    problem: str
    part: str | None

    def seen_in(self, result: run.Result) -> str | None:
        """Return what a world says of it, if it does, in one line."""
        lines = (one.splitlines()[0] for one in result.problems)
        return next((one for one in lines if self.problem in one), None)


BUGS: dict[str, Bug] = {}


def bug(problem: str, part: str | None = None) -> Callable[[_Plant], _Plant]:
    """Note the bug that a function plants, by the function's name."""

    def note(plant: _Plant) -> _Plant:
        name = plant.__name__.replace("_", "-")
        assert name not in BUGS, name
        BUGS[name] = Bug(plant, problem, part)
        return plant

    return note


def of_part(part: str) -> Callable[[str], Callable[[_Plant], _Plant]]:
    """Return what notes the bugs of a part."""
    return functools.partial(bug, part=part)
