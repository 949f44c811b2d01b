# SPDX-License-Identifier: Apache-2.0

"""What is emulated where."""

import types

import pytest

from fpgapool.allinone import wiring
from fpgapool.common import exception
from fpgapool.drivers import base as drivers


@pytest.mark.parametrize(
    ("hosts", "boards", "expected"),
    [(5, 3, [1, 1, 1, 0, 0]), (2, 5, [3, 2]), (1, 1, [1])],
)
def test_boards_go_to_hosts_in_turn(
    hosts: int, boards: int, expected: list[int]
) -> None:
    cluster = wiring.Cluster(hosts=hosts, boards=boards)
    names = cluster.host_names()
    assert [cluster.boards_of(name) for name in names] == expected
    assert cluster.slot_count() == 4 * boards


@pytest.mark.parametrize(
    "wrong",
    [
        {"hosts": 0},
        {"hosts": wiring.MAX_HOSTS + 1},
        {"boards": 0},
        {"slots": 0},
        {"boards": wiring.MAX_SLOTS, "slots": 2},
        {"rate_scale": 0.0},
        {"rate_scale": float("nan")},
        {"rate_scale": float("inf")},
    ],
    ids=str,
)
def test_impossible_clusters_are_refused(wrong: dict) -> None:
    with pytest.raises(exception.ConfigurationError):
        wiring.Cluster(**wrong)


@pytest.mark.parametrize(
    ("faults", "told"),
    [
        ([{}, {"a": None, "b": "it burns"}], None),
        ([{"a": None}, {"b": drivers.UNANSWERED}], None),
        ([{"a": drivers.UNANSWERED, "b": "it burns"}], None),
        (
            [{"a": None}, {"b": "it burns", "c": "it melts"}],
            "no usable boards: b: it burns; c: it melts",
        ),
        ([{}, {}], "the driver found no boards"),
    ],
)
def test_hosts_whose_boards_are_of_no_use(faults, told) -> None:
    agents = {
        f"node{number}": types.SimpleNamespace(faults=each)
        for number, each in enumerate(faults)
    }
    assert wiring.Agents(agents).fault() == told
