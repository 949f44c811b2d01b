# SPDX-License-Identifier: Apache-2.0

"""Decides which node gets which label.

A node has at most one label: the accelerator that is programmed into more of
its healthy slots than any other. To ignore single sessions, a label changes
only after another has been right for :data:`STABLE_S`. A fault removes it
immediately.
"""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import enum
import re
import typing

from fpgapool.vocabulary import rules
from fpgapool.vocabulary import states

PREFIX = "acc-"
#: Time for which a new label must be right before the node gets it.
STABLE_S = 30.0
# YARN rejects longer labels.
_MAX_LABEL_CHARS = 255

# A slot within a node: the name of its device and its number there.
_SlotName: typing.TypeAlias = tuple[str, int]


class Unknown(enum.Enum):
    """Marks a label that this program has not set or cannot determine."""

    LABEL = "unknown label"


def label_of(accelerator: str) -> str:
    """Return the label for an accelerator.

    :param accelerator: its name; characters that labels cannot contain become
        hyphens, and a long name is truncated.
    """
    label = PREFIX + re.sub("[^0-9A-Za-z_-]", "-", accelerator)
    return label[:_MAX_LABEL_CHARS]


@dataclasses.dataclass
class _Node:
    """A node's labels and slots.

    :ivar had: the label for each healthy slot when the node was last examined.
    :ivar wanted: the label that it should have.
    :ivar since_s: when ``wanted`` last changed.
    :ivar has_lost: whether its label must be removed because of a fault.
    """

    label: str | Unknown | None = Unknown.LABEL
    had: dict[_SlotName, str] = dataclasses.field(default_factory=dict)
    wanted: str | Unknown | None = Unknown.LABEL
    since_s: float = 0.0
    has_lost: bool = False


class Labels:
    """The labels of all nodes with slots."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._seen_s = -STABLE_S

    def decide(
        self,
        hosts: collections.abc.Iterable[
            collections.abc.Mapping[str, typing.Any]
        ],
        now_s: float,
    ) -> dict[str, str | None]:
        """Return the labels to set now, by node; None removes the label.

        They are returned again until :meth:`applied` is called for them.

        :param hosts: the hosts in the pool's summary, as the API returns it.
            Hosts with names that are not valid node names are ignored: YARN
            could read such a name as several nodes, or as an option.
        """
        # After a long gap, the time of the last change is unknown.
        is_late = now_s - self._seen_s > STABLE_S
        self._seen_s = now_s
        changes: dict[str, str | None] = {}
        slots = {
            host["name"]: dict(_slots(host))
            for host in hosts
            if rules.HOST_NAME.fullmatch(host["name"])
        }
        for name in sorted({*self._nodes, *slots}):
            found = slots.get(name, {})
            if not found and name not in self._nodes:
                # A node without boards may have a label from other software.
                continue
            node = self._nodes.setdefault(name, _Node())
            self._look(node, found, now_s, is_late)
            if node.has_lost:
                changes[name] = None
            elif node.wanted is not Unknown.LABEL and (
                node.wanted != node.label and now_s - node.since_s >= STABLE_S
            ):
                changes[name] = node.wanted
        return changes

    def applied(self, node: str, label: str | None) -> None:
        """Record that a node now has a label."""
        self._nodes[node].label = label
        self._nodes[node].has_lost = False

    @staticmethod
    def _look(
        node: _Node,
        slots: dict[_SlotName, str | Unknown | None],
        now_s: float,
        is_late: bool,
    ) -> None:
        """Compare a node with its previous state.

        :param slots: the accelerator programmed into each slot; Unknown.LABEL
            if the slot is faulty.
        """
        healthy = {
            slot: label_of(accelerator)
            for slot, accelerator in slots.items()
            if isinstance(accelerator, str)
        }
        works = any(one is not Unknown.LABEL for one in slots.values())
        counts = collections.Counter(healthy.values())
        wanted = min(
            counts,
            key=lambda one: (-counts[one], one != node.label, one),
            default=None,
        )
        if is_late or wanted != node.wanted:
            node.wanted, node.since_s = wanted, now_s
        # A fault removes the label immediately; reprogramming a slot does not.
        lost = any(
            label == node.label
            and slots.get(slot, Unknown.LABEL) is Unknown.LABEL
            for slot, label in node.had.items()
        )
        if node.label is not None and (
            not works or (lost and node.label not in counts)
        ):
            node.has_lost = True
        node.had = healthy


def _slots(
    host: collections.abc.Mapping[str, typing.Any],
) -> collections.abc.Iterator[tuple[_SlotName, str | Unknown | None]]:
    """Yield each slot of a host and the accelerator programmed into it."""
    for device in host["devices"]:
        for slot in device["slots"]:
            works = (
                host["up"]
                and device["healthy"]
                and slot["state"] != states.FAULTY
            )
            yield (
                (device["name"], slot["slot"]),
                slot["programmed"] if works else Unknown.LABEL,
            )
