# SPDX-License-Identifier: Apache-2.0

"""Divides shares down a tree of domains and projects.

What a node gets in each round is divided between those directly below it that
are active, by weight: the part of the others is lent to their siblings. Each
node is charged for everything below it, as a project is. A project that begins
to wait does so in the round of its nodes, so that a node gets no more because
its projects take turns in being active.
"""

import dataclasses
import math
import typing
from collections import abc

from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core import ordered
from fpgapool.core.topology import slots

#: Maximum number of nodes above a project.
MAX_DEPTH = 16

#: The node of projects that the tree does not have.
UNKNOWN = ""

# Sums of floats would drift.
_UNITS = 10**6


@dataclasses.dataclass(frozen=True, slots=True)
class Places:
    """Where domains and projects are in the tree.

    :param parents: the node directly above each; those at the top have none.
    :raises ValueError: if there are more than MAX_DEPTH nodes above one.
    """

    parents: abc.Mapping[str, str]

    def __post_init__(self) -> None:
        depths: dict[str, int] = {}
        for name in self.parents:
            way = []
            while name in self.parents and name not in depths:
                way.append(name)
                if len(way) > MAX_DEPTH:
                    break
                name = self.parents[name]
            depth = depths.get(name, 0)
            for each in reversed(way):
                depth += 1
                depths[each] = depth
            if depth > MAX_DEPTH:
                raise ValueError(
                    f"{way[0]!r} is in itself, or has more than {MAX_DEPTH}"
                    " nodes above it"
                )


class Part(typing.NamedTuple):
    """The part that a project or node has of what is divided with others.

    :ivar name: its ID.
    :ivar weights: the sum of its weight and those of the others beside it
        that wait, have slots or owe.
    """

    name: str
    weight: float
    weights: float


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Meter:
    """What a project or node may still use, in rounds.

    :ivar share_bytes: what it got in a round when it was last charged.
    :ivar left_bytes: the bytes left in its round: above 0, and at most
        ``share_bytes``.
    :ivar round: the next round in which it may get slots.
    """

    __slots__ = ("left_bytes", "round", "share_bytes")

    def __init__(self, share_bytes: float) -> None:
        self.share_bytes = share_bytes
        self.left_bytes = share_bytes
        self.round = 0

    def begin(self, round_: int, share_bytes: float) -> None:
        """Begin a round with all that it gets in one."""
        self.round = round_
        self.share_bytes = self.left_bytes = share_bytes

    def see_share(self, share_bytes: float) -> None:
        """Set what it gets in a round; what it has left is no more."""
        self.share_bytes = share_bytes
        self.left_bytes = min(self.left_bytes, share_bytes)

    def after(
        self, cost_bytes: float, share_bytes: float
    ) -> tuple[int, float]:
        """Return its round after a charge, and the bytes then left in it.

        That is the first round in which it has bytes left.
        """
        left_bytes = min(self.left_bytes, share_bytes) - cost_bytes
        if left_bytes > 0:
            return self.round, left_bytes
        rounds = math.floor(-left_bytes / share_bytes) + 1
        left_bytes += rounds * share_bytes
        # With very large debts, the rounded result may be out of range.
        if not 0 < left_bytes <= share_bytes:
            left_bytes = share_bytes
        return self.round + rounds, left_bytes


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Node(Meter):
    """A domain, or a project with others below it.

    :param units: its weight, in millionths.
    :param whole_bytes: what it gets in each round if it is at the top.
    :ivar active: the sum of the units of those directly below it that wait,
        have slots or owe.
    :ivar waits: the number of projects below it that wait.
    """

    __slots__ = ("active", "name", "parent", "units", "waits", "whole_bytes")

    def __init__(
        self,
        name: str,
        parent: "Node | None",
        units: int,
        whole_bytes: float,
    ) -> None:
        super().__init__(whole_bytes)
        self.name = name
        self.parent = parent
        self.units = units
        self.whole_bytes = whole_bytes
        self.active = 0
        self.waits = 0

    def share_now(self) -> float:
        """Return what it gets in each round, if it is active."""
        if self.parent is None:
            return self.whole_bytes
        return self.parent.share_below(self.units, self.active > 0)

    def share_below(self, units: int, is_active: bool) -> float:
        """Return what one directly below it gets, if it is active.

        :param is_active: whether it is.
        """
        # One that is alone gets the whole, exactly.
        return self.share_now() * (units / self.weights(units, is_active))

    def weights(self, units: int, is_active: bool) -> int:
        """Return the sum of weights by which the one below is divided."""
        return self.active if is_active else self.active + units

    def first_round(self, round_: int) -> int:
        """Return the round of one that begins to wait below it."""
        if self.parent is not None:
            round_ = self.parent.first_round(round_)
        return max(round_, self.round)

    def enter(self, units: int, round_: int) -> None:
        """Count one directly below it that becomes active."""
        self.active += units
        if self.active == units:
            if self.parent is not None:
                self.parent.enter(self.units, round_)
            if self.round <= round_:
                self.begin(round_, self.share_now())

    def exit(self, units: int) -> None:
        self.active -= units
        if not self.active and self.parent is not None:
            self.parent.exit(self.units)

    def join(self, round_: int) -> int:
        """Count a project that begins to wait; return its first round."""
        first = round_ if self.parent is None else self.parent.join(round_)
        if not self.waits and self.round <= round_:
            self.begin(first, self.share_now())
        self.waits += 1
        return max(first, self.round)

    def leave(self) -> None:
        self.waits -= 1
        if self.parent is not None:
            self.parent.leave()

    def reach(self, round_: int) -> None:
        """Go to a round, unless it is later already."""
        self.round = max(self.round, round_)
        if self.parent is not None:
            self.parent.reach(round_)

    def charge(self, cost_bytes: float) -> float:
        """Charge it and those above it; return what it gets in each round."""
        share_bytes = self.whole_bytes
        if self.parent is not None:
            share_bytes = self.parent.charge(cost_bytes)
            share_bytes *= self.units / self.parent.active
        self.round, self.left_bytes = self.after(cost_bytes, share_bytes)
        self.share_bytes = share_bytes
        return share_bytes


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Account(Meter):
    """The account of one project.

    :ivar place: its place among the projects of the same round.
    :ivar node: the node above it; None: there is no tree.
    :ivar units: its weight below that node, in millionths.
    :ivar expires: whether it is forgotten when its debts are paid.
    """

    __slots__ = (
        "expires",
        "holds",
        "node",
        "place",
        "project",
        "units",
        "waits",
    )

    def __init__(self, project: str, share_bytes: float) -> None:
        super().__init__(share_bytes)
        self.project = project
        self.place = 0
        self.waits = False
        self.holds: dict[model.SlotId, slots.Hold] = {}
        self.node: Node | None = None
        self.units = 0
        self.expires = False

    @property
    def key(self) -> ordered.Key:
        """Its place among the waiting projects."""
        return (self.round, self.place, self.project)


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Tree:
    """The nodes above projects that have jobs, slots or debts.

    :param weights: weights of domains and projects; the default is 1.
    """

    def __init__(
        self,
        places: Places,
        quantum_bytes: float,
        weights: abc.Mapping[str, float],
    ) -> None:
        # Copies of a pool share it.
        self._places = places
        self._inner = frozenset(places.parents.values())
        self._quantum_bytes = quantum_bytes
        self._weights = weights
        self._nodes: dict[str, Node] = {}

    def above(self, project: str) -> Node:
        """Return the node whose share a project divides with others.

        The sessions of a project with others below it are one of them.
        """
        if project in self._inner:
            return self._node(project)
        return self._node(self._places.parents.get(project, UNKNOWN))

    def units(self, project: str) -> int:
        """Return a project's weight below that node, in millionths."""
        return _UNITS if project in self._inner else self._units(project)

    def take_over(self, other: "Tree") -> None:
        """Let nodes continue in the rounds that they had in another tree."""
        for name, node in other._nodes.items():
            mine = self._node(name)
            mine.round, mine.left_bytes = node.round, node.left_bytes

    def path(self, project: str, is_active: bool) -> list[Part]:
        """Return a project's place, beginning with itself.

        :param is_active: whether it waits, has slots or owes.
        """
        node, units = self.above(project), self.units(project)
        found = [_part(project, units, node.weights(units, is_active))]
        while node.parent is not None:
            above, units = node.parent, node.units
            weights = above.weights(units, node.active > 0)
            found.append(_part(node.name, units, weights))
            node = above
        others = sum(
            each.units
            for each in self._nodes.values()
            if each.parent is None and each.active and each is not node
        )
        found.append(_part(node.name, node.units, node.units + others))
        return found

    def _node(self, name: str) -> Node:
        node = self._nodes.get(name)
        if node is None:
            above = self._places.parents.get(name)
            node = self._nodes[name] = Node(
                name,
                None if above is None else self._node(above),
                self._units(name),
                self._quantum_bytes * self._weights.get(name, 1.0),
            )
        return node

    def _units(self, name: str) -> int:
        return max(round(self._weights.get(name, 1.0) * _UNITS), 1)


def _part(name: str, units: int, sum_units: int) -> Part:
    return Part(name, units / _UNITS, sum_units / _UNITS)
