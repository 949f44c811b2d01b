# SPDX-License-Identifier: Apache-2.0

"""What is emulated where."""

import contextlib
import dataclasses
import pathlib
import types

import pytest
from oslo_config import cfg
from oslo_db import options as db_options

from fpgapool import conf as fpgapool_conf
from fpgapool.allinone import wiring
from fpgapool.common import exception
from fpgapool.db import api as db_api
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


def test_descriptions_follow_the_rates_unless_they_were_adapted(
    tmp_path: pathlib.Path,
) -> None:
    conf = cfg.ConfigOpts()
    fpgapool_conf.register_opts(conf)
    db_options.set_defaults(conf, f"sqlite:///{tmp_path}/pool.sqlite")
    conf([], default_config_files=[], default_config_dirs=[])
    database = db_api.Database.from_conf(conf)

    def told(rates: str) -> dict[str, str]:
        wiring._prepare_database(conf, rates)
        return {
            one.name: one.profile["description"]
            for one in database.accelerators()
        }

    with contextlib.closing(database):
        text = "Returns its input unchanged"
        assert told("")["copy"] == text
        scaled = f"{text} (rates scaled by 0.5)"
        assert told("rates scaled by 0.5")["copy"] == scaled
        (copy,) = (o for o in database.accelerators() if o.name == "copy")
        own = {**copy.profile, "description": "Mine"}
        named = dataclasses.replace(copy, name="gzip", profile=own)
        database.upsert_accelerators([named])
        found = told("rates unlimited")
        assert found["copy"] == f"{text} (rates unlimited)"
        assert found["gzip"] == "Mine"
        assert told("")["copy"] == text


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
