# SPDX-License-Identifier: Apache-2.0

"""Benchmarks run, and what they measure is what they say."""

import pathlib

import pytest

from tests.benchmarks import __main__ as command
from tests.benchmarks import plain
from tests.benchmarks import pools
from tests.benchmarks import smoke
from tests.harness import cases
from tests.harness import pool_invariants


@pytest.mark.parametrize("name", cases.first(*smoke.names(services=False)))
def test_a_tiny_run_of_each(
    name: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command.main(smoke.options(tmp_path, name))
    smoke.check(name, tmp_path, capsys.readouterr().out)


@pytest.mark.parametrize("strategy", pools.STRATEGIES)
def test_the_floor_decides_the_same(strategy: str) -> None:
    size = pools.Size(hosts=4, waiting=40)
    full = pools.FullPool(
        strategy, size, keep_taken=True, options=plain.OPTIONS
    )
    floor = plain.PlainPool(strategy, size)
    assert full.state.idle_count == 0
    assert full.state.waiting_count == 40
    assert full.decide(full.source.make(300)) > 250
    floor.decide(floor.source.make(300))
    assert full.taken == floor.taken
    pool_invariants.check(full.state)
