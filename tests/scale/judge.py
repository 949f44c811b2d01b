# SPDX-License-Identifier: Apache-2.0

"""What must hold at the end: nobody lost anything, and nobody shared."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable
from collections.abc import Mapping

from fpgapool.vocabulary import states
from tests.scale import visits
from tests.scale import workers

_SHOWN = 5


def lost(
    told: Mapping[str, visits.Told], recorded: Mapping[str, str]
) -> list[str]:
    """Return what is wrong with the sessions that clients were told of.

    :param recorded: the states in the database, by session id.
    """
    problems: collections.defaultdict[str, list[str]] = (
        collections.defaultdict(list)
    )
    for session_id, one in told.items():
        state = recorded.get(session_id)
        if state is None:
            problem = "not recorded"
        elif one.is_closed and state != states.CLOSED:
            problem = f"closed by the client, and recorded as {state}"
        elif (
            one.state in states.LIVE
            and not one.is_closed
            and (state in states.TERMINAL)
        ) or (one.state in states.TERMINAL and state in states.LIVE):
            problem = f"{one.state} for the client, and recorded as {state}"
        else:
            continue
        problems[problem].append(session_id)
    return [
        f"{len(found)} {problem}: {', '.join(found[:_SHOWN])}"
        for problem, found in sorted(problems.items())
    ]


def shared(uses: Iterable[workers.Use]) -> list[str]:
    """Return which slots had two clients at once, or sessions two slots.

    A client may leave a slot for one that its session has got instead, whose
    generation is higher: the slot of a host that was lost hears of it later.
    """
    by_holder: collections.defaultdict[str, list[workers.Use]] = (
        collections.defaultdict(list)
    )
    for use in uses:
        by_holder[f"slot {use.slot}"].append(use)
        by_holder[f"session {use.session_id}"].append(use)
    problems = []
    for name, found in by_holder.items():
        found.sort(key=lambda use: use.began_s)
        problems += [
            f"{name} was used twice: {earlier}, {later}"
            for earlier, later in itertools.pairwise(found)
            if later.began_s < earlier.ended_s
            and (
                later.slot == earlier.slot
                or later.generation <= earlier.generation
            )
        ]
    return problems
