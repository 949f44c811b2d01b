# SPDX-License-Identifier: Apache-2.0

"""Finds exactly when a job has waited long enough."""

import math

# A timeout is due slightly early. Otherwise rounding could make a wake-up at
# exactly that time too early.
_TIMEOUT_SLACK_S = 1e-12


def has_waited(since_s: float, patience_s: float, now: float) -> bool:
    """Return whether a job has waited for ``patience_s``.

    It is true from :func:`first_due_s` on.
    """
    return now - since_s >= patience_s - _TIMEOUT_SLACK_S


def first_due_s(arrival_s: float, patience_s: float) -> float:
    """Return the first time at which a job has waited for ``patience_s``.

    It is the smallest number ``now`` for which ``now - arrival_s`` is at least
    ``patience_s`` minus the slack, in floating-point arithmetic.
    """
    if math.isinf(patience_s):
        return math.inf
    enough_s = patience_s - _TIMEOUT_SLACK_S
    time_s = arrival_s + enough_s
    if time_s - arrival_s < enough_s:
        time_s = math.nextafter(time_s, math.inf)
        if time_s - arrival_s >= enough_s:
            return time_s
    elif math.nextafter(time_s, -math.inf) - arrival_s < enough_s:
        return time_s
    step_s = math.ulp(max(abs(arrival_s), abs(time_s), patience_s))
    early_s, late_s = time_s - step_s, time_s + step_s
    while early_s - arrival_s >= enough_s:
        early_s -= step_s
    while late_s - arrival_s < enough_s:
        late_s += step_s
    while early_s < (middle_s := (early_s + late_s) / 2) < late_s:
        if middle_s - arrival_s >= enough_s:
            late_s = middle_s
        else:
            early_s = middle_s
    return late_s
