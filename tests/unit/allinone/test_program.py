# SPDX-License-Identifier: Apache-2.0

"""A pool that another program runs: how it ends, and what its log tells."""

from __future__ import annotations

import pathlib
import subprocess

import pytest

from fpgapool.allinone import program


class _Process:
    """A process; the waits for it end as told."""

    def __init__(self, *ends: BaseException | int) -> None:
        self._ends = iter(ends)
        self.returncode: int | None = None
        self.done: list[str] = []

    def terminate(self) -> None:
        self.done.append("terminate")

    def kill(self) -> None:
        self.done.append("kill")

    def wait(self, timeout_s: float) -> None:
        end = next(self._ends)
        if isinstance(end, BaseException):
            raise end
        self.returncode = end


LATE = subprocess.TimeoutExpired("pool", 30)


@pytest.mark.parametrize(
    ("ends", "done"),
    [
        ((0,), ["terminate"]),
        ((LATE, 9), ["terminate", "kill"]),
    ],
)
def test_it_waits_for_the_pool(ends: tuple[object, ...], done: object) -> None:
    process = _Process(*ends)  # type: ignore[arg-type]
    program._stop(process)  # type: ignore[arg-type]
    assert process.done == done
    assert process.returncode is not None


def test_interrupts_do_not_shorten_the_wait() -> None:
    process = _Process(KeyboardInterrupt(), KeyboardInterrupt(), LATE, 9)
    with pytest.raises(KeyboardInterrupt):
        program._stop(process)  # type: ignore[arg-type]
    assert (process.done, process.returncode) == (["terminate", "kill"], 9)


def test_a_log_repeats_nothing(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_text("begun\n" + "0 of 1 slots are ready\n" * 60 + "over\n")
    assert program.with_log("failed", path).split("\n    ") == [
        "failed:",
        "begun",
        "0 of 1 slots are ready",
        "over",
    ]
