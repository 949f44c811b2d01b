# SPDX-License-Identifier: Apache-2.0

"""The energy of sessions, from the pool's usage."""

import time
import typing

import pytest

from demo import energy
from demo import errors
from demo import rest


def answer(
    monkeypatch: pytest.MonkeyPatch,
    *answers: list[tuple[int, float | None]],
) -> None:
    """Let the API answer; the last answer stays. Time goes by quickly."""
    to_come = list(answers)
    now_s = 0.0

    def ask(url: str) -> dict[str, typing.Any]:
        assert url == "http://pool/v1/usage"
        rows = to_come.pop(0) if len(to_come) > 1 else to_come[0]
        return {
            "usage": [
                {"sessions": count, "energy_j": energy_j}
                for count, energy_j in rows
            ]
        }

    def sleep(passed_s: float) -> None:
        nonlocal now_s
        now_s += passed_s

    monkeypatch.setattr(rest, "ask", ask)
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    monkeypatch.setattr(time, "sleep", sleep)


def test_it_waits_until_the_sessions_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer(monkeypatch, [], [(3, 5.0)], [(3, 5.0), (1, None), (2, 1.5)])
    assert energy.usage("http://pool", 6) == energy.Usage(6, 6.5)


def test_a_pool_that_never_counts_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer(monkeypatch, [(5, 5.0)])
    with pytest.raises(errors.DemoError, match="never has 6 sessions"):
        energy.usage("http://pool", 6)


def test_the_mean_of_the_sessions_between() -> None:
    before, after = energy.Usage(24, 10.0), energy.Usage(34, 25.0)
    assert energy.per_session_j(before, after) == 1.5
    unknown = energy.Usage(24, None)
    assert energy.per_session_j(unknown, after) == 2.5
    assert energy.per_session_j(unknown, unknown._replace(sessions=34)) is None
