# SPDX-License-Identifier: Apache-2.0

"""Which faults happen, in which order and for how long: all by the seed."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator
from collections.abc import Sequence

from tests.chaos import faults

#: How often a second fault comes during the first.
SECOND_SHARE = 0.2
#: How long a fault lasts, at least and at most.
LASTS_S = (3.0, 12.0)
_APART_S = 3.0


@dataclasses.dataclass(frozen=True)
class Blow:
    """One or two faults.

    :ivar kinds: in the order in which they begin; they end in the other.
    :ivar lasts_s: how long, if they do not end by themselves.
    :ivar apart_s: between the beginnings of two.
    """

    kinds: tuple[faults.Kind, ...]
    lasts_s: float
    apart_s: float
    seed: int

    @property
    def title(self) -> str:
        """Name for reports."""
        return " + ".join(kind.title for kind in self.kinds)


def blows(
    seed: int,
    kinds: Sequence[faults.Kind],
    second_share: float = SECOND_SHARE,
    lasts_s: tuple[float, float] = LASTS_S,
) -> Iterator[Blow]:
    """Give faults without end; each kind once before one comes again.

    Those that move streams come first and then at even intervals, so that a
    short run has some as well.

    :param seed: the same one gives the same faults.
    :raises ValueError: if there are no kinds.
    """
    if not kinds:
        raise ValueError("there is no fault to choose from")
    rng = random.Random(seed)
    while True:
        deck = list(kinds)
        rng.shuffle(deck)
        for first in _spread(deck):
            chosen = [first]
            others = [k for k in kinds if k.component != first.component]
            if rng.random() < second_share and others:
                chosen.append(rng.choice(others))
            yield Blow(
                tuple(chosen),
                rng.uniform(*lasts_s),
                rng.uniform(0.0, _APART_S),
                rng.getrandbits(32),
            )


def _spread(deck: Sequence[faults.Kind]) -> Iterator[faults.Kind]:
    movers = [kind for kind in deck if kind.moves]
    others = iter([kind for kind in deck if not kind.moves])
    for mover in movers:
        yield mover
        yield from itertools.islice(others, len(deck) // len(movers) - 1)
    yield from others
