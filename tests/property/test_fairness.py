# SPDX-License-Identifier: Apache-2.0

"""Max-min fair rates against textbook progressive filling."""

import hypothesis
import hypothesis.strategies as st
import pytest

from fpgapool.drivers.emulator import fairness

amounts = st.floats(0.01, 100.0)


@st.composite
def networks(
    draw: st.DrawFn,
) -> tuple[list[float], list[list[tuple[int, float]]], list[float]]:
    """Caps, memberships and capacities."""
    capacities = draw(st.lists(amounts, min_size=1, max_size=6))
    resources = st.sampled_from(range(len(capacities)))
    costs = st.sampled_from([0.0, 0.25, 1.0, 1.0, 2.0])
    uses = st.dictionaries(resources, costs).map(lambda d: list(d.items()))
    memberships = draw(st.lists(uses, min_size=1, max_size=8))
    caps = [draw(amounts) for _ in memberships]
    return caps, memberships, capacities


def textbook(
    caps: list[float],
    memberships: list[list[tuple[int, float]]],
    capacities: list[float],
) -> list[float]:
    """Raise all rates by the largest step possible, again and again."""
    rates = [0.0] * len(caps)
    growing = set(range(len(caps)))
    while growing:
        used = [0.0] * len(capacities)
        growth = [0.0] * len(capacities)
        for flow, uses in enumerate(memberships):
            for resource, cost in uses:
                used[resource] += cost * rates[flow]
                growth[resource] += cost * (flow in growing)
        step = min(caps[flow] - rates[flow] for flow in growing)
        for resource, capacity in enumerate(capacities):
            if growth[resource] > 0:
                left = capacity - used[resource]
                step = min(step, left / growth[resource])
        for flow in growing:
            rates[flow] += step
        full = {
            resource
            for resource, capacity in enumerate(capacities)
            if capacity - used[resource] - step * growth[resource]
            <= 1e-12 * capacity
        }
        growing = {
            flow
            for flow in growing
            if caps[flow] - rates[flow] > 1e-12 * caps[flow]
            and not any(
                resource in full and cost > 0
                for resource, cost in memberships[flow]
            )
        }
    return rates


@hypothesis.given(network=networks())
def test_same_as_textbook(
    network: tuple[list[float], list[list[tuple[int, float]]], list[float]],
) -> None:
    assert fairness.max_min_rates(*network) == pytest.approx(
        textbook(*network), rel=1e-9
    )
