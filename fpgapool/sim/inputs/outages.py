# SPDX-License-Identifier: Apache-2.0

"""Hosts with a board that are lost at random, and come back."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from fpgapool.sim.inputs import scenario as scenarios

# Jobs use the streams 0 to 4 of a seed (``workloads``).
_STREAM = 5


def draw(
    hosts: Iterable[int],
    mean_up_s: float,
    mean_down_s: float,
    until_s: float,
    seed: int,
) -> tuple[scenarios.Outage, ...]:
    """Draw outages that begin before a time.

    Each host has its own random numbers, so that others change nothing for it.

    :param mean_up_s: mean of the exponential times before outages.
    :param mean_down_s: mean of their exponential lengths.
    """
    found: list[scenarios.Outage] = []
    for host in sorted(hosts):
        stream = np.random.Generator(
            np.random.PCG64(
                np.random.SeedSequence(seed, spawn_key=(_STREAM, host))
            )
        )
        end_s = 0.0
        while True:
            up, down = stream.random(2).tolist()
            start_s = end_s - mean_up_s * math.log1p(-up)
            if start_s >= until_s:
                break
            end_s = start_s - mean_down_s * math.log1p(-down)
            if end_s > start_s:
                found.append(scenarios.Outage(host, start_s, end_s))
    return tuple(found)
