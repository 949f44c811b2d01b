# SPDX-License-Identifier: Apache-2.0

"""What a part of worlds has to say: some worlds have it, others do not.

A part is one file with a subclass of :class:`Part`, its invariants and the
bugs that break them, and one line in :mod:`tests.world.parts`.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping

if typing.TYPE_CHECKING:
    from tests.chaos import clients
    from tests.world import kernel as kernels
    from tests.world import pool as pools
    from tests.world import run
    from tests.world import schedule as schedules

Fault: typing.TypeAlias = (
    "Callable[[pools.Pool, schedules.Fault], Callable[[], None]]"
)


class Part:
    """A part, in one world that has it.

    :cvar NAME: of its option, and in schedules.
    :cvar HELP: of the option.
    :cvar SEEDS: of so many seeds, these have it.
    :cvar PLANS: what a schedule lists of it: the lists' names, and what is in
        each. They are cut shorter from the last one on.
    :cvar FAULTS: that it has besides, by their kinds.
    :cvar EXCUSED: codes with which any session may end where it is.
    """

    NAME: typing.ClassVar[str]
    HELP: typing.ClassVar[str]
    SEEDS: typing.ClassVar[tuple[int, tuple[int, ...]]]
    PLANS: typing.ClassVar[Mapping[str, type[typing.Any]]] = {}
    FAULTS: typing.ClassVar[Mapping[str, Fault]] = {}
    EXCUSED: typing.ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def draw(cls, schedule: schedules.Schedule) -> schedules.Schedule:
        """Return a schedule that has the part, drawn from its seed."""
        return schedule

    @classmethod
    def options(cls, _seed: int) -> Mapping[str, Mapping[str, object]]:
        """Return what conductors are configured with."""
        return {}

    @classmethod
    def prepare(cls, _kernel: kernels.Kernel) -> None:
        """Change the product, for good, before anything begins."""

    def __init__(self, world: run.World) -> None:
        """Watch the world from now on."""

    def begin(self) -> None:
        """Have those begin who make it; the pool is up."""

    def visits(self) -> Iterable[schedules.Visit]:
        """Return what clients do besides."""
        return ()

    def session_options(
        self, _visit: schedules.Visit
    ) -> Mapping[str, typing.Any]:
        """Return the options of the session of a visit."""
        return {}

    def visited(
        self, _visit: schedules.Visit, _outcome: clients.Outcome
    ) -> None:
        """Note what became of a visit."""

    def excuses(self, outcome: clients.Outcome) -> bool:
        """Return whether a session may end so, whatever went wrong."""
        return outcome.code in self.EXCUSED

    def waiting(self) -> Iterable[str]:
        """Return who has not ended yet."""
        return ()

    def wrong(self) -> Iterable[str]:
        """Return what is wrong in the end."""
        return ()

    def facts(self) -> Mapping[str, object]:
        """Return what the result tells of it."""
        return {}
