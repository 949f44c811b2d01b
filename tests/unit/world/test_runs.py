# SPDX-License-Identifier: Apache-2.0

"""A seed replays exactly."""

import json
import subprocess
import sys

from tests.harness import waiting


def _play(*options: str) -> list[dict[str, object]]:
    command = [sys.executable, "-m", "tests.world", "--verbose", *options]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=waiting.COMMAND_LIMIT_S,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return [
        json.loads(line)
        for line in ended.stdout.splitlines()
        if line.startswith("{")
    ]


def test_the_same_seed_is_the_same_run() -> None:
    options = ("--seeds", "2:3", "--sessions", "30")
    first, again = (_play(*options) for _ in range(2))
    assert len(first) == 2

    def traces(results: list[dict[str, object]]) -> set[object]:
        return {(one["seed"], one["trace"], one["steps"]) for one in results}

    assert traces(first) == traces(again)
    assert len({trace for _seed, trace, _steps in traces(first)}) == 2


def test_sessions_take_slots_where_the_command_line_says_so() -> None:
    # Not one of the seeds in which they do so anyway.
    options = ("--seeds", "3:3", "--sessions", "10", "--preemption")
    without, some, every = (
        _play(*options, which)[0]["trace"] for which in ("no", "some", "all")
    )
    assert without == some != every
