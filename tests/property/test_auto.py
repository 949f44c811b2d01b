# SPDX-License-Identifier: Apache-2.0

"""Random events: auto does what its rule says, and the books are right."""

import dataclasses
from unittest import mock

import hypothesis
import hypothesis.stateful as stateful
import hypothesis.strategies as st
import pytest

from fpgapool import strategies
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.strategies.joint import auto
from fpgapool.strategies.joint import pairs
from tests.property import fuzzing
from tests.property import joint
from tests.property import literal_auto


@st.composite
def auto_options(draw: st.DrawFn) -> auto.AutoOptions:
    """The rule as it is, or without some of its parts."""
    if draw(st.booleans()):
        return auto.AutoOptions()
    values = {
        field.name: draw(st.sampled_from([0.0, field.default, 1.0]))
        for field in dataclasses.fields(auto.AutoOptions)
    }
    for name in ("leave_penalty", "leave_penalty_idle"):
        values[name] = values[name] or 2.0
    values["leave_penalty"] = max(
        values["leave_penalty"], values["leave_penalty_idle"]
    )
    return auto.AutoOptions(**values)


class CheckedAuto(auto.AutoStrategy):
    """Compares itself with the literal rule in every pass."""

    def assign(
        self, view: pool_view.PoolView, now: float
    ) -> list[strategy.Choice]:
        expected = literal_auto.Pass(self.options, view, now)
        expected.run()
        choices = list(super().assign(view, now))
        assert [(c.job_id, c.slot_id) for c in choices] == expected.choices
        return choices


class CheckedVectors(CheckedAuto):
    """Weighs even a few jobs as vectors."""

    def assign(
        self, view: pool_view.PoolView, now: float
    ) -> list[strategy.Choice]:
        with mock.patch.object(pairs, "_FEW", 1):
            return super().assign(view, now)


class AutoMachine(joint.Machine):
    checked: type[CheckedAuto] = CheckedAuto

    @stateful.initialize(options=auto_options(), seed=joint.seeds)
    def start(self, options: auto.AutoOptions, seed: int) -> None:
        self.begin(self.checked(options), auto.AutoStrategy(options), seed)


TestAuto = AutoMachine.TestCase
TestAuto.settings = hypothesis.settings(
    fuzzing.limits(60), stateful_step_count=20
)


class WideMachine(AutoMachine):
    """So many hosts that some of their jobs get almost the same rates."""

    checked = CheckedVectors
    hosts = range(14)


TestWideAuto = WideMachine.TestCase
TestWideAuto.settings = hypothesis.settings(
    max_examples=15, stateful_step_count=10
)


def test_leaving_must_not_cost_less_than_while_many_slots_are_idle() -> None:
    with pytest.raises(ValueError, match="at most leave_penalty"):
        auto.AutoOptions(leave_penalty=1.0, leave_penalty_idle=2.0)


def test_the_factory_makes_it() -> None:
    made = strategies.auto({"spread": 0.0, "q": 1.5}, 0)
    assert isinstance(made, auto.AutoStrategy)
    assert made.options == auto.AutoOptions(spread=0.0)
