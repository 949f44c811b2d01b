# SPDX-License-Identifier: Apache-2.0

"""People are told which sizes the thresholds fit."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Callable

import pytest

from demo import __main__ as demo
from fpgapool import strategies
from fpgapool.cmd import allinone
from fpgapool.cmd import sim
from fpgapool.sim.inputs import scenario
from fpgapool.vocabulary import scheduling

TUNING = pathlib.Path(__file__).parents[3] / "doc/source/admin/tuning.rst"


def plain(text: str) -> str:
    return " ".join(text.split())


def of_simulator(command: str) -> Callable[[], argparse.ArgumentParser]:
    def parser() -> argparse.ArgumentParser:
        [commands] = (
            action
            for action in sim.parser()._actions
            if isinstance(action, argparse._SubParsersAction)
        )
        found: argparse.ArgumentParser = commands.choices[command]
        return found

    return parser


def test_the_sizes_are_those_of_fixed_thresholds() -> None:
    bounds = scenario.SHORT_TAIL.thresholds_bytes
    lowest, highest = f"{bounds[0] / 1e6:g} MB", f"{bounds[-1] / 1e9:.1f} GB"
    assert f"{lowest} to {highest}" in scheduling.FITTING_SIZES
    said = plain(TUNING.read_text())
    assert f"is {lowest}, and the highest {highest}" in said
    assert scheduling.FITTING_SIZES in plain(
        scheduling.FIELDS["E_bytes"].metadata["help"]
    )


def test_by_default_thresholds_are_learnt() -> None:
    for factory in (strategies.wa, strategies.wra):
        made = factory({}, 0)
        assert made.claims is not None


@pytest.mark.parametrize(
    "parser",
    [
        of_simulator("run"),
        of_simulator("generate"),
        allinone.parser,
        demo._parser,
    ],
    ids=["run", "generate", "allinone", "demo"],
)
def test_the_help_of_strategy_tells_them(
    parser: Callable[[], argparse.ArgumentParser],
) -> None:
    [option] = (
        action
        for action in parser()._actions
        if "--strategy" in action.option_strings
    )
    assert scheduling.FITTING_SIZES in str(option.help)
