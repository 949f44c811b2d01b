# SPDX-License-Identifier: Apache-2.0

"""When two times are the same instant.

Times are sums, and the order of a sum changes its last digits. So times within
1e-12 × (1 + time) are one instant: some thousand steps of a 64-bit number, and
far less than anything that a scenario can mean. What falls together happens in
one pass of the strategy.
"""

from __future__ import annotations

from fpgapool.sim.engines import compiling

_RESOLUTION = 1e-12


@compiling.in_place
def tolerance_s(time_s: float) -> float:
    """Return how far another time may be from a time to be one instant."""
    return _RESOLUTION * (1.0 + time_s)


@compiling.in_place
def are_one(first_s: float, second_s: float) -> bool:
    """Return whether two times, of which either may be infinite, are one."""
    return first_s <= second_s + tolerance_s(
        second_s
    ) and second_s <= first_s + tolerance_s(first_s)
