# SPDX-License-Identifier: Apache-2.0

"""How commands say how long a session will probably wait."""

from __future__ import annotations

from typing import Protocol


class Waits(Protocol):
    """A view of a session, or a dry run; None: unknown."""

    @property
    def expected_wait_s(self) -> float | None: ...

    @property
    def expected_wait_low_s(self) -> float | None: ...

    @property
    def expected_wait_high_s(self) -> float | None: ...


def text(found: Waits) -> str:
    """Return a wait, such as ``about 40 s (9 of 10: 6 to 110 s)``; empty if
    it is unknown.
    """
    if found.expected_wait_s is None:
        return ""
    about = f"about {_number(found.expected_wait_s)} s"
    low_s, high_s = found.expected_wait_low_s, found.expected_wait_high_s
    if low_s is None or high_s is None:
        return about
    return f"{about} (9 of 10: {_number(low_s)} to {_number(high_s)} s)"


def _number(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"
