# SPDX-License-Identifier: Apache-2.0

"""Measured rates of real workers are those of the flow model."""

from __future__ import annotations

import pytest

from tests.functional.emulator import harness

#: Of each rate, against the model.
TOLERANCE = 0.03
ATTEMPTS = 3

# In the gate: tests/unit/drivers/test_shares.py.
pytestmark = [pytest.mark.long, pytest.mark.alone]

Flow = harness.Flow

SCENARIOS = {
    "alone": [Flow("fast", "a", "a")],
    "two local": [Flow("fast", "a", "a")] * 2,
    "unequal peaks": [
        Flow("slow", "a", "a"),
        Flow("fast", "a", "a"),
        Flow("fast", "a", "a"),
    ],
    "four local": [Flow("slow", "a", "a")] + [Flow("fast", "a", "a")] * 3,
    "slow core": [
        Flow("fast", "a", "a", slowness=4.0),
        Flow("fast", "a", "a"),
        Flow("fast", "a", "a"),
    ],
    # The NIC of the board's host holds both, the pipe has room.
    "remote": [Flow("fast", "a", "b"), Flow("fast", "a", "c")],
    # The NIC holds the remote ones, the local one gets what they leave.
    "local and remote": [
        Flow("fast", "a", "a"),
        Flow("fast", "a", "b"),
        Flow("fast", "a", "c"),
        Flow("fast", "a", "c"),
    ],
    "without a host": [
        Flow("echo", "a", "a"),
        Flow("echo", "a", None),
        Flow("echo", "a", None),
    ],
    # One host sends to two boards: its NIC is full, the boards' are not.
    "common origin": [
        Flow("fast", "a", "c"),
        Flow("fast", "b", "c"),
        Flow("slow", "b", "b"),
    ],
    # Without returning data the two directions have nothing in common, ...
    "crossing": [
        Flow("fast", "a", "b"),
        Flow("fast", "b", "a"),
        Flow("slow", "b", "b"),
    ],
    # ... with it they share each host's NIC.
    "crossing and returning": [
        Flow("echo", "a", "b"),
        Flow("echo", "b", "a"),
        Flow("slow-echo", "b", "b"),
        Flow("slow", "a", "c"),
    ],
}


@pytest.mark.parametrize("flows", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_rates_are_max_min_fair(directory, profiles, flows):
    found = harness.measure(directory, flows, TOLERANCE, ATTEMPTS)
    assert found.worst_error <= TOLERANCE, (
        found.rates_bytes_per_s,
        harness.expected_bytes_per_s(flows),
    )
