# SPDX-License-Identifier: Apache-2.0

"""Labels of nodes, on virtual time."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from fpgapool.yarn import labels
from tests.unit.yarn import inventory


class Cluster:
    """Nodes that take all labels.

    :ivar changes: all that there were, with their times.
    """

    def __init__(self) -> None:
        self.changes: list[tuple[float, str, str | None]] = []
        self._labels = labels.Labels()

    def look(self, now_s: float, *hosts: dict[str, Any]) -> None:
        for node, label in self._labels.decide(hosts, now_s).items():
            self.changes.append((now_s, node, label))
            self._labels.applied(node, label)

    def watch(self, begin_s: int, end_s: int, *hosts: dict[str, Any]) -> None:
        """Look at the same pool, every second until just before the end."""
        for now_s in range(begin_s, end_s):
            self.look(float(now_s), *hosts)


@pytest.fixture
def cluster() -> Cluster:
    """Give a cluster in which node1 has had the label acc-aes for 30 s."""
    made = Cluster()
    made.watch(0, 61, inventory.host("aes", "aes", "fft"))
    assert made.changes == [(30.0, "node1", "acc-aes")]
    made.changes.clear()
    return made


def test_most_slots_win_then_the_present_label_then_the_name() -> None:
    made = Cluster()
    made.watch(0, 40, inventory.host("sha", "fft", "aes", "fft", "sha"))
    made.watch(40, 80, inventory.host("sha", "fft", "aes", "aes", "sha"))
    made.watch(80, 120, inventory.host("aes", "fft", "aes", "aes", "sha"))
    assert made.changes == [
        (30.0, "node1", "acc-fft"),
        # It has one slot only; of the others the first name.
        (70.0, "node1", "acc-aes"),
    ]
    tie = Cluster()
    tie.watch(0, 40, inventory.host("sha", "sha", "fft"))
    tie.watch(40, 120, inventory.host("sha", "fft", None))
    assert tie.changes == [(30.0, "node1", "acc-sha")]


@pytest.mark.parametrize(
    "name",
    ["a node2=acc-aes", "a,b", "-option", "a=acc-aes", "a\n", "", "h\u00f6st"],
)
def test_a_host_whose_name_could_be_read_as_more_is_ignored(name: str) -> None:
    made = Cluster()
    made.watch(0, 61, inventory.host("aes", name=name), inventory.host("fft"))
    assert made.changes == [(30.0, "node1", "acc-fft")]


def test_a_label_is_as_long_as_yarn_takes() -> None:
    """Else one accelerator's name would keep all nodes from their labels."""
    assert labels.label_of("x" * 300) == "acc-" + "x" * 251


def test_a_change_waits_until_it_is_stable(cluster: Cluster) -> None:
    cluster.watch(61, 90, inventory.host("fft", "fft", "fft"))
    cluster.look(90.0, inventory.host("aes", "fft", "aes"))
    cluster.watch(91, 121, inventory.host("fft", "fft", "fft"))
    assert cluster.changes == []
    cluster.look(121.0, inventory.host("fft", "fft", "fft"))
    assert cluster.changes == [(121.0, "node1", "acc-fft")]


def test_a_hundred_reprogrammings_change_nothing(cluster: Cluster) -> None:
    chance = random.Random(7)
    for number in range(100):
        programmed = [
            chance.choice(("aes", "fft", "sha", None)) for _ in range(3)
        ]
        cluster.look(61.0 + number / 10, inventory.host(*programmed))
    cluster.watch(71, 140, inventory.host("aes", "aes", "fft"))
    assert cluster.changes == []


def test_reprogramming_beside_a_faulty_slot_changes_nothing(
    cluster: Cluster,
) -> None:
    cluster.look(61.0, inventory.host("aes", "aes", "fft", faulty=(0,)))
    for now_s in range(62, 90):
        one = ("aes", "sha")[now_s % 2]
        cluster.look(
            float(now_s), inventory.host(None, one, "fft", faulty=(0,))
        )
    assert cluster.changes == []


@pytest.mark.parametrize(
    "faulty",
    [
        inventory.host("aes", "aes", "fft", faulty=(0, 1)),
        inventory.host(None, None, "fft", faulty=(0, 1)),
        inventory.host("fft", "aes", "fft", faulty=(1,)),
        inventory.host("aes", "aes", "fft", healthy=False),
        inventory.host("aes", "aes", "fft", up=False),
        inventory.host(),
    ],
)
def test_a_fault_removes_the_label_at_once(
    cluster: Cluster, faulty: dict[str, Any]
) -> None:
    cluster.watch(61, 63, faulty)
    assert cluster.changes == [(61.0, "node1", None)]


def test_the_next_label_comes_after_the_fault(cluster: Cluster) -> None:
    cluster.watch(61, 100, inventory.host("aes", "aes", "fft", faulty=(0, 1)))
    cluster.watch(100, 140, inventory.host("aes", "aes", "fft"))
    assert cluster.changes == [
        (61.0, "node1", None),
        (91.0, "node1", "acc-fft"),
        (130.0, "node1", "acc-aes"),
    ]


def test_one_of_two_slots_fails(cluster: Cluster) -> None:
    cluster.watch(61, 100, inventory.host("aes", "aes", "fft", faulty=(0,)))
    assert cluster.changes == []


def test_a_removed_host_loses_its_label(cluster: Cluster) -> None:
    cluster.look(61.0)
    assert cluster.changes == [(61.0, "node1", None)]


def test_hosts_without_boards_are_left_alone() -> None:
    made = Cluster()
    bare = {"name": "node2", "up": True, "devices": []}
    made.watch(0, 40, bare, inventory.host("aes"))
    assert made.changes == [(30.0, "node1", "acc-aes")]


def test_a_label_of_former_times_goes() -> None:
    made = Cluster()
    made.watch(0, 40, inventory.host(None, None))
    assert made.changes == [(30.0, "node1", None)]


def test_changes_come_again_until_they_are_applied() -> None:
    made = labels.Labels()
    for now_s in (0.0, 30.0, 31.0):
        changes = made.decide([inventory.host("aes")], now_s)
        assert changes == ({} if now_s < 30 else {"node1": "acc-aes"})
    made.applied("node1", "acc-aes")
    assert made.decide([inventory.host("aes")], 32.0) == {}
    fallen = inventory.host("fft", "aes", faulty=(1,))
    made.decide([inventory.host("fft", "aes")], 33.0)
    for now_s in (34.0, 35.0, 36.0):
        assert made.decide([fallen], now_s) == {"node1": None}
    made.applied("node1", None)
    assert made.decide([fallen], 37.0) == {}


def test_nothing_is_stable_that_was_not_seen(cluster: Cluster) -> None:
    cluster.look(61.0, inventory.host("fft", "fft", "fft"))
    cluster.look(100.0, inventory.host("fft", "fft", "fft"))
    assert cluster.changes == []
    cluster.watch(101, 131, inventory.host("fft", "fft", "fft"))
    assert cluster.changes == [(130.0, "node1", "acc-fft")]


@pytest.mark.parametrize("name", ["aes", "aes-cbc", "own.v2", "p1:lr", "ä/b"])
def test_yarn_takes_the_labels(name: str) -> None:
    assert re.fullmatch(
        "[0-9a-zA-Z][0-9a-zA-Z_-]{0,254}", labels.label_of(name)
    )
