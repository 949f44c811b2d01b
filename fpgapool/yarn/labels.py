# SPDX-License-Identifier: Apache-2.0

"""Which node gets which label. Decides only: time and pool come as arguments.

A node has one label. It names the accelerator that is programmed into most of
the node's healthy slots. A label changes when the pool has been the same for a
while, so that single sessions do not move it. A fault removes it at once.
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
#: How long a new label must be the right one before the node gets it.
STABLE_S = 30.0
# YARN takes no longer ones.
_MAX_LABEL_CHARS = 255

# Names of slots within a node: its device, and its number there.
_SlotName: typing.TypeAlias = tuple[str, int]


class Unknown(enum.Enum):
    """What this program has not set yet."""

    LABEL = "unknown label"


def label_of(accelerator: str) -> str:
    """Return the label for an accelerator.

    :param accelerator: its name; characters that labels cannot have become
        hyphens, and the end of a long one is cut off.
    """
    label = PREFIX + re.sub("[^0-9A-Za-z_-]", "-", accelerator)
    return label[:_MAX_LABEL_CHARS]


@dataclasses.dataclass
class _Node:
    """What is known of a node.

    :ivar had: the labels that its healthy slots stood for, last time.
    :ivar wanted: the label that it should have.
    :ivar has_lost: whether a fault has taken its label, which is not removed
        yet.
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

        :param hosts: of the pool's summary, as the API shows it. One whose
            name cannot be that of a node is ignored: YARN could read it as
            several nodes, or as an option.
        """
        # What has happened meanwhile is unknown.
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
                # Others may label nodes without boards.
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
        """Note that a node has a label now."""
        self._nodes[node].label = label
        self._nodes[node].has_lost = False

    @staticmethod
    def _look(
        node: _Node,
        slots: dict[_SlotName, str | Unknown | None],
        now_s: float,
        is_late: bool,
    ) -> None:
        """Compare a node with what was there before.

        :param slots: what each is programmed with; unknown if it is faulty.
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
        # A slot that is programmed again takes no label away; a fault does.
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
    """Yield what the slots of a host are programmed with."""
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
