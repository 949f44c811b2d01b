# SPDX-License-Identifier: Apache-2.0

"""Random events: era does what its rule says, and the books are right."""

import dataclasses

import hypothesis
import hypothesis.stateful as stateful
import hypothesis.strategies as st

from fpgapool import strategies
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.strategies.joint import era
from tests.property import fuzzing
from tests.property import joint
from tests.property import literal_era


@st.composite
def era_options(draw: st.DrawFn) -> era.EraOptions:
    """The rule as it is, as it began, or anything between."""
    if draw(st.booleans()):
        return draw(st.sampled_from([era.EraOptions(), era.AS_WRITTEN]))
    values = {
        field.name: draw(
            st.sampled_from(
                [
                    0.0,
                    getattr(era.AS_WRITTEN, field.name),
                    getattr(era.EraOptions(), field.name),
                    1.0,
                ]
            )
        )
        for field in dataclasses.fields(era.EraOptions)
    }
    for name in ("long_factor", "leave_penalty", "leave_penalty_idle"):
        values[name] = values[name] or 2.0
    return era.EraOptions(**values)


class CheckedEra(era.EraStrategy):
    """Compares itself with the literal rule in every pass."""

    def assign(
        self, view: pool_view.PoolView, now: float
    ) -> list[strategy.Choice]:
        expected = literal_era.Pass(self.options, view, now)
        expected.run()
        choices = list(super().assign(view, now))
        assert [(c.job_id, c.slot_id) for c in choices] == expected.choices
        return choices


class EraMachine(joint.Machine):
    @stateful.initialize(options=era_options(), seed=joint.seeds)
    def start(self, options: era.EraOptions, seed: int) -> None:
        self.begin(CheckedEra(options), era.EraStrategy(options), seed)


TestEra = EraMachine.TestCase
TestEra.settings = hypothesis.settings(
    fuzzing.limits(60), stateful_step_count=20
)


def test_the_factory_makes_it() -> None:
    made = strategies.era({"spread": 0.0, "q": 1.5}, 0)
    assert isinstance(made, era.EraStrategy)
    assert made.options == era.EraOptions(spread=0.0)
