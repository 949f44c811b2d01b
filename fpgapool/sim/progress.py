# SPDX-License-Identifier: Apache-2.0

"""Reports progress on standard error, at least every five seconds.

A terminal shows a bar; files and pipes get lines.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

import rich.console
import rich.progress

#: Time between two lines. On a busy machine, a line may come late.
QUIET_S = 3.0
#: Interval between updates of a bar.
_BAR_S = 0.25


class Work:
    """What a command is doing.

    :param total: number of its parts; None: unknown.
    :ivar done: number of parts that are done.
    """

    def __init__(self, text: str, total: int | None, unit: str) -> None:
        self.done = 0
        self._text = text
        self._total = total
        self._unit = unit
        self._begin_s = time.monotonic()
        self._bar: rich.progress.Progress | None = None

    def advance(self) -> None:
        self.done += 1

    def __str__(self) -> str:
        passed_s = time.monotonic() - self._begin_s
        parts = ""
        if self._total is not None:
            parts = f": {self.done} of {self._total} {self._unit}"
        note = f"; {_notes[-1]}" if _notes else ""
        return f"{self._text}{parts}, {passed_s:.0f} s so far{note}"

    @contextlib.contextmanager
    def bar(self) -> Iterator[None]:
        """Show a bar during the work, if standard error is a terminal."""
        console = rich.console.Console(stderr=True)
        if not console.is_terminal:
            yield
            return
        with rich.progress.Progress(
            rich.progress.SpinnerColumn(),
            rich.progress.TextColumn("{task.description}", markup=False),
            rich.progress.BarColumn(),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TimeElapsedColumn(),
            rich.progress.TimeRemainingColumn(),
            console=console,
            transient=True,
        ) as self._bar:
            self._bar.add_task(self._text, total=self._total)
            yield
            self._bar = None

    def move_bar(self) -> bool:
        bar = self._bar
        if bar is not None:
            text = "; ".join([self._text, *_notes[-1:]])
            bar.update(bar.task_ids[0], completed=self.done, description=text)
        return bar is not None


#: What the command is doing, outermost first.
_works: list[Work] = []


#: What delays the work, outermost first.
_notes: list[str] = []


def begin_note(text: str) -> None:
    """Say with the progress of the work what it waits for."""
    _notes.append(text)


def end_note() -> None:
    """Stop saying what was said last."""
    _notes.pop()


@contextlib.contextmanager
def work(
    text: str, total: int | None = None, unit: str = "runs"
) -> Iterator[Work]:
    """Show the progress of work; see :class:`Work`."""
    made = Work(text, total, unit)
    _works.append(made)
    try:
        with made.bar():
            yield made
    finally:
        _works.remove(made)


@contextlib.contextmanager
def reporting(program: str, command: str) -> Iterator[None]:
    _works.append(Work(command, None, ""))
    is_over = threading.Event()
    thread = threading.Thread(
        target=_report,
        name="progress",
        args=(program, is_over),
        daemon=True,
    )
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        _works.pop()


def _report(program: str, is_over: threading.Event) -> None:
    said_s = time.monotonic()
    while not is_over.wait(min(_BAR_S, QUIET_S)):
        now, now_s = _works[-1], time.monotonic()
        if now.move_bar():
            said_s = now_s
        elif now_s - said_s >= QUIET_S:
            said_s = now_s
            # A closed standard error must not stop the work.
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(f"{program}: {now}\n")
                sys.stderr.flush()
