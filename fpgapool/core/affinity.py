# SPDX-License-Identifier: Apache-2.0

"""Affinity: how well a job's accelerator fits a device, and what it takes.

A job takes a slot if its *fitness* for the slot's device is at least its
*threshold*, which falls from 1 to 0 while the job is passed over, or waits
(:mod:`fpgapool.strategies.placements.offers` has the inverse: how long).
"""

import math


def fitness(n_acc: int, n: int) -> float:
    """Return how well an accelerator fits a device.

    :param n_acc: how many jobs the device runs with this accelerator.
    :param n: how many jobs the device runs.
    :returns: the share of the accelerator, from 0 to 1; infinite if the
        device runs nothing.
    """
    return n_acc / n if n else math.inf


def threshold_by_misses(misses: int, allowed: int) -> float:
    """Return the least fitness that a job takes, by its misses.

    :param misses: how often the job was passed over since the last grant.
    :param allowed: the misses after which it takes any slot; with 0, it does
        at once.
    :returns: from 1 without misses to 0; linear.
    """
    return max(0.0, 1.0 - misses / allowed) if allowed else 0.0
