# SPDX-License-Identifier: Apache-2.0

"""No command is silent for long, with a terminal and without."""

import importlib
import io
import threading

import pytest
import rich.console

from fpgapool.cmd import sim
from fpgapool.sim import commands
from fpgapool.sim import progress
from fpgapool.sim.engines import compiling

#: Only a broken program takes so long to say a line.
_LONG_S = 30.0

ARGUMENTS = {
    "run": ["s.json"],
    "generate": ["--output", "s.json"],
    "advise": ["s.json"],
    "sweep": ["s.yaml", "--out", "d"],
    "tune": ["--dist", "exponential", "--load", "0.5"],
}


class _Listener(io.StringIO):
    """Standard error, for a reader who waits for a line."""

    def __init__(self) -> None:
        super().__init__()
        self.has_line = threading.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        if "\n" in text:
            self.has_line.set()
        return count


def _listen(monkeypatch: pytest.MonkeyPatch) -> _Listener:
    """Replace standard error, of a program that soon says what it does.

    A fixture would be too early: pytest sets it anew for the test.
    """
    made = _Listener()
    monkeypatch.setattr(progress, "QUIET_S", 0.01)
    monkeypatch.setattr("sys.stderr", made)
    return made


def test_every_command_is_tried() -> None:
    assert sorted(commands.MODULES) == sorted(ARGUMENTS)


@pytest.mark.parametrize("name", commands.MODULES)
def test_a_command_says_that_it_works(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = _listen(monkeypatch)
    monkeypatch.setattr(
        importlib.import_module(commands.MODULES[name]),
        "run",
        lambda _: int(not listener.has_line.wait(_LONG_S)),
    )
    assert sim.main([name, *ARGUMENTS[name]]) == 0
    assert listener.getvalue().startswith(f"fpgapool-sim: {name}, 0 s so far")


def test_parts_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = _listen(monkeypatch)
    with progress.reporting("fpgapool-sim", "run"):
        with progress.work("[wra]", 10, "jobs") as work:
            work.done = 2
            work.advance()
            listener.has_line.clear()
            assert listener.has_line.wait(_LONG_S)
        lines = listener.getvalue().splitlines()
        assert any(
            line.startswith("fpgapool-sim: [wra]: 3 of 10 jobs, ")
            for line in lines
        )


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = _listen(monkeypatch)
    shown = io.StringIO()
    console = rich.console.Console(
        file=shown, force_terminal=True, width=100, color_system=None
    )
    monkeypatch.setattr(rich.console, "Console", lambda **_: console)
    with progress.work("[wra]", 10, "jobs") as work:
        work.done = 4
        assert work.move_bar()
        assert work._bar is not None
        work._bar.refresh()
    assert not work.move_bar()
    assert "[wra]" in shown.getvalue()
    assert "4/10" in shown.getvalue()
    assert listener.getvalue() == ""


def test_an_error_ends_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    _listen(monkeypatch)
    with (
        pytest.raises(RuntimeError, match="broken"),
        progress.reporting("fpgapool-sim", "run"),
        progress.work("wra"),
    ):
        raise RuntimeError("broken")
    assert "progress" not in [each.name for each in threading.enumerate()]
    assert progress._works == []


def test_a_reader_who_has_gone_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = threading.Event()

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            tried.set()
            raise BrokenPipeError

    monkeypatch.setattr(progress, "QUIET_S", 0.01)
    monkeypatch.setattr("sys.stderr", Gone())
    with progress.reporting("fpgapool-sim", "run"):
        assert tried.wait(_LONG_S)


def test_the_progress_says_when_loops_are_compiled() -> None:
    """numba compiles; its events are what the progress hears of."""
    compiling.register()
    event = importlib.import_module("numba.core.event")
    work = progress.Work("wra", None, "")
    seen = []
    for _ in range(2):
        with event.trigger_event("numba:compile"):
            seen.append(str(work))
        seen.append(str(work))
    said, after = "wra, 0 s so far; compiling the engine", "wra, 0 s so far"
    assert seen == [said, after, said, after]
