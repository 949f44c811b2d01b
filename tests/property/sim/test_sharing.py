# SPDX-License-Identifier: Apache-2.0

"""Rates kept up to date against rates computed anew after each change."""

import dataclasses
import math

import hypothesis
import hypothesis.strategies as st
import pytest

from fpgapool.drivers.emulator import fairness
from fpgapool.sim.engines import sharing

FLOWS = 8
#: More than those of a job in one slot.
USES = 2 * sharing.USES
amounts = st.floats(0.01, 100.0)


@dataclasses.dataclass
class Start:
    """A flow comes."""

    flow: int
    cap: float
    uses: dict[int, float]


@dataclasses.dataclass
class Stop:
    """A flow goes."""

    flow: int


@st.composite
def histories(
    draw: st.DrawFn,
) -> tuple[list[float], list[list[Start | Stop]]]:
    """Capacities, and what happens at each instant."""
    capacities = draw(st.lists(amounts, min_size=1, max_size=USES))
    resources = st.sampled_from(range(len(capacities)))
    costs = st.sampled_from([0.25, 1.0, 1.0, 2.0])
    uses = st.dictionaries(resources, costs, min_size=1, max_size=USES)
    caps = st.one_of(amounts, st.just(math.inf))
    live: set[int] = set()
    history: list[list[Start | Stop]] = []
    for _ in range(draw(st.integers(1, 10))):
        instant: list[Start | Stop] = []
        for flow in draw(st.sets(st.integers(0, FLOWS - 1), max_size=4)):
            if flow in live:
                live.remove(flow)
                instant.append(Stop(flow))
            else:
                live.add(flow)
                instant.append(Start(flow, draw(caps), draw(uses)))
        history.append(instant)
    return capacities, history


@hypothesis.given(case=histories())
def test_rates_are_those_of_progressive_filling(
    case: tuple[list[float], list[list[Start | Stop]]],
) -> None:
    capacities, history = case
    net = sharing.make_network(capacities, FLOWS, USES)
    live: dict[int, Start] = {}
    for now, instant in enumerate(history):
        for change in instant:
            if isinstance(change, Stop):
                del live[change.flow]
                sharing.stop(net, change.flow)
                continue
            live[change.flow] = change
            for resource, cost in change.uses.items():
                sharing.use(net, change.flow, resource, cost)
            sharing.start(net, change.flow, change.cap, 1e6, float(now))
        sharing.settle(net, float(now))
        expected = fairness.max_min_rates(
            [flow.cap for flow in live.values()],
            [list(flow.uses.items()) for flow in live.values()],
            capacities,
        )
        rates = [net.rate[number] for number in live]
        assert rates == pytest.approx(expected, rel=1e-9)
        idle = set(range(FLOWS)) - set(live)
        assert [net.rate[number] for number in idle] == [0.0] * len(idle)


@hypothesis.given(
    sizes=st.lists(amounts, min_size=1, max_size=FLOWS),
    capacity=amounts,
)
def test_what_shares_one_pipe_ends_in_the_order_of_its_size(
    sizes: list[float], capacity: float
) -> None:
    """With equal shares the k-th end follows from the sizes alone."""
    net = sharing.make_network([capacity], FLOWS)
    for flow, size in enumerate(sizes):
        sharing.use(net, flow, 0, 1.0)
        sharing.start(net, flow, math.inf, size, 0.0)
    sharing.settle(net, 0.0)
    ends: dict[int, float] = {}
    while len(ends) < len(sizes):
        now, count = sharing.collect_done(net, math.inf)
        done = [int(flow) for flow in net.found[:count]]
        assert done
        for flow in done:
            sharing.stop(net, flow)
            ends[flow] = now
        sharing.settle(net, now)
    for flow, size in enumerate(sizes):
        carried = sum(min(other, size) for other in sizes)
        assert ends[flow] == pytest.approx(carried / capacity, rel=1e-6)
