# SPDX-License-Identifier: Apache-2.0

"""Probation: whatever happens, all that is out comes back in time."""

from collections.abc import Iterable

import hypothesis.stateful as stateful
import hypothesis.strategies as st

from fpgapool.core import health

OPTIONS = health.HealthOptions(first_s=1.0, factor=2.0, max_s=20.0)

places = st.builds(
    lambda slot_id, accelerator: health.Place(
        slot_id // 4, slot_id // 2, slot_id, accelerator
    ),
    st.integers(0, 7),
    st.sampled_from(["aes", "fft"]),
)
units = st.builds(
    lambda place, number: place.units()[number], places, st.integers(0, 2)
)


class Probation(stateful.RuleBasedStateMachine):
    """Random failures and tests, beside a plain book of what is out."""

    def __init__(self) -> None:
        super().__init__()
        self.health = health.Health(OPTIONS)
        self.now = 0.0
        # What has been told, by unit: out, or under test.
        self.out: dict[health.Unit, bool] = {}
        self.places: dict[health.Unit, health.Place] = {}

    def take(self, found: Iterable[health.Instruction]) -> None:
        """Follow what is said; it must go from one state to the next."""
        for one in found:
            match one:
                case health.TakeOut(fault):
                    assert fault.unit not in self.out
                    self.out[fault.unit] = False
                case health.TestUnit(fault):
                    assert self.out[fault.unit] is False
                    self.out[fault.unit] = True
                case health.BringBack(unit):
                    del self.out[unit]

    @stateful.rule(place=places)
    def fail(self, place: health.Place) -> None:
        self.places |= dict.fromkeys(place.units(), place)
        self.take(self.health.failed(place, "PROGRAM_FAILED", self.now))

    @stateful.rule(place=places)
    def succeed(self, place: health.Place) -> None:
        self.health.succeeded(place)
        for unit in place.units()[1:]:
            assert self.health.failures(unit) == 0

    @stateful.rule(place=places, level=st.integers(1, 2))
    def break_down(self, place: health.Place, level: int) -> None:
        self.places |= dict.fromkeys(place.units(), place)
        unit = place.units()[level]
        self.take(self.health.take_out(unit, "SLOT_FAULTY", self.now))

    @stateful.rule(
        passed_s=st.floats(0.0, 30.0),
        testable=st.sets(units),
        crowded=st.sets(units),
    )
    def wait(
        self,
        passed_s: float,
        testable: set[health.Unit],
        crowded: set[health.Unit],
    ) -> None:
        self.now += passed_s
        found = self.health.due(
            self.now, testable.__contains__, crowded.__contains__
        )
        self.take(found)

    @stateful.rule(unit=units)
    def ask_for_test(self, unit: health.Unit) -> None:
        self.health.begin(unit)
        if unit in self.out:
            self.out[unit] = True

    @stateful.rule(error=st.sampled_from(["", "wrong result"]), data=st.data())
    def end_test(self, error: str, data: st.DataObject) -> None:
        tested = sorted(
            (unit for unit, is_tested in self.out.items() if is_tested),
            key=str,
        )
        if not tested:
            return
        unit = data.draw(st.sampled_from(tested))
        self.take(self.health.tested(self.places[unit], unit, error, self.now))
        if error:
            self.out[unit] = False

    @stateful.rule(unit=units)
    def lose_test(self, unit: health.Unit) -> None:
        self.health.postpone(unit, self.now)
        if unit in self.out:
            self.out[unit] = False

    @stateful.rule(unit=units)
    def forgive(self, unit: health.Unit) -> None:
        self.take(self.health.forgive(unit))

    @stateful.rule()
    def change_leaders(self) -> None:
        faults = list(self.health.faults.values())
        self.health = health.Health(OPTIONS, faults, self.now)
        self.out = dict.fromkeys(self.out, False)

    @stateful.invariant()
    def one_state_each(self) -> None:
        found = {
            unit: fault.is_tested for unit, fault in self.health.faults.items()
        }
        assert found == self.out

    @stateful.invariant()
    def the_next_test_is_not_far(self) -> None:
        for fault in self.health.faults.values():
            if fault.next_test_at is not None:
                assert fault.next_test_at - self.now <= OPTIONS.max_s
                assert fault.tries >= fault.tests

    def teardown(self) -> None:
        """All that is out is tested within the longest time, and is back."""
        for unit, is_tested in list(self.out.items()):
            if is_tested:
                self.health.postpone(unit, self.now)
                self.out[unit] = False
        self.now += OPTIONS.max_s
        self.take(self.health.due(self.now, lambda unit: True))
        for unit in list(self.out):
            self.take(
                self.health.tested(self.places[unit], unit, "", self.now)
            )
        assert not self.out
        assert not self.health.faults


TestProbation = Probation.TestCase
