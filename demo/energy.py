# SPDX-License-Identifier: Apache-2.0

"""The energy of sessions, as the pool's usage has it."""

from __future__ import annotations

import typing

from demo import rest


class Usage(typing.NamedTuple):
    """Usage by all sessions that have ended.

    :ivar energy_j: their shares of the boards' energy; None: not measured.
    """

    sessions: int
    energy_j: float | None


def usage(api_url: str, sessions: int) -> Usage:
    """Return the usage as soon as the pool has counted so many sessions.

    :raises DemoError: if the API fails, or never counts them.
    """
    found = Usage(0, None)

    def is_counted() -> bool:
        nonlocal found
        rows = rest.ask(f"{api_url}/v1/usage")["usage"]
        energies_j = [row["energy_j"] for row in rows]
        known_j = [each for each in energies_j if each is not None]
        found = Usage(
            sum(row["sessions"] for row in rows),
            sum(known_j) if known_j else None,
        )
        return found.sessions >= sessions

    rest.wait(is_counted, f"the usage never has {sessions} sessions")
    return found


def per_session_j(before: Usage, after: Usage) -> float | None:
    """Return the mean energy of the sessions between two times.

    :returns: None: not measured.
    """
    if after.energy_j is None:
        return None
    spent_j = after.energy_j - (before.energy_j or 0.0)
    return spent_j / (after.sessions - before.sessions)
