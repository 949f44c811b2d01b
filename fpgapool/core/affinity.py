# SPDX-License-Identifier: Apache-2.0

"""Affinity: how well a job's accelerator fits a device, and what it takes.

A job takes a slot if its *fitness* for the slot's device is at least its
*threshold*, which falls from 1 to 0 while the job is passed over or waits.
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
    return _fallen(misses, allowed)


def threshold_by_wait(waited_s: float, affinity_wait_s: float) -> float:
    """Return the least fitness that a job takes, by its wait.

    :param waited_s: the time since the last grant.
    :param affinity_wait_s: the time after which it takes any slot; with 0,
        it does at once.
    :returns: from 1 without a wait to 0; linear.
    """
    return _fallen(waited_s, affinity_wait_s)


def _fallen(passed: float, limit: float) -> float:
    return max(0.0, 1.0 - passed / limit) if limit else 0.0
