# SPDX-License-Identifier: Apache-2.0

"""Opens the sessions of all stages, or none."""

from __future__ import annotations

import random
from collections.abc import Callable
from collections.abc import Sequence

from fpgapool.client import cancel as cancelling
from fpgapool.client import errors
from fpgapool.client.links import waiting
from fpgapool.client.sessions import session as sessions
from fpgapool.common.channels import channel

# How long slots are held while another one is awaited: the first and the
# longest time. Pools end sessions that wait for longer, after a minute.
_FIRST_HOLD_S = 5.0
_LONGEST_HOLD_S = 20.0
# A request cannot wait for no time at all.
_LEAST_S = 0.001
# Shortest and longest pause after all slots were given back.
_PAUSES_S = 0.2, 2.0

#: Opens the session of a stage: its index, how often all of them were
#: requested before, and the seconds for which it may wait or None.
Open = Callable[[int, int, float | None], sessions.Session]


def open_all(
    order: Sequence[int],
    open_one: Open,
    token: cancelling.CancelToken,
    wait_timeout_s: float | None,
) -> list[sessions.Session]:
    """Get a slot for each stage, one after the other.

    All programs ask in the same order, and while one of them holds slots, it
    waits only for a short time. Then it gives them all back, and begins again
    after a pause. So chains that need each other's slots do not block each
    other for ever.

    :param order: indices of the stages, in the order in which to ask.
    :param wait_timeout_s: time limit for all waits; None: no limit.
    :returns: the sessions by index.
    """
    until_s = channel.deadline_after(wait_timeout_s)
    hold_s, attempt = _FIRST_HOLD_S, 0
    while True:
        opened: dict[int, sessions.Session] = {}
        try:
            for index in order:
                left_s = channel.remaining_s(until_s)
                if left_s is not None:
                    left_s = max(left_s, _LEAST_S)
                wait_s = waiting.earliest(hold_s if opened else None, left_s)
                opened[index] = open_one(index, attempt, wait_s)
            return [opened[index] for index in sorted(opened)]
        except BaseException as exc:
            for session in opened.values():
                session.abort()
            is_held = isinstance(exc, errors.WaitTimeout) and opened
            if not is_held or channel.remaining_s(until_s) == 0:
                raise
        token.wait(random.uniform(*_PAUSES_S))
        hold_s = min(2 * hold_s, _LONGEST_HOLD_S)
        attempt += 1
