# SPDX-License-Identifier: Apache-2.0

"""The messages and reports of ``fpgapool-run``."""

from __future__ import annotations

import sys
import time
import typing
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Self

from fpgapool import client
from fpgapool.client import shown
from fpgapool.cmd.running import arguments as command_line
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import session
from fpgapool.vocabulary import states
from fpgapool.vocabulary import units


class Display:
    """Progress on standard error: a bar on a terminal, else plain lines."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._state: tuple[str, int | None, str] | None = None
        self._bar: typing.Any = None
        self._task: typing.Any = None

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            self._bar = _make_bar()
        if self._bar is not None:
            self._task = self._bar.add_task("requesting", total=None)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def on_state(self, view: client.SessionView) -> None:
        """Show a state; see :func:`fpgapool.client.acc_open`."""
        state = (view.state, view.queue_position, view.message)
        if self._quiet or state == self._state:
            return
        self._state = state
        text = _state_text(view)
        if self._bar is not None:
            self._bar.update(self._task, description=text)
        if self._bar is None or view.reason:
            self.tell(text)

    def on_away(self, what: str, gives_up_s: float | None) -> None:
        """Show an outage; see :func:`fpgapool.client.acc_open`."""
        text = f"{what} does not respond; reconnecting"
        if gives_up_s is not None:
            at = time.localtime(time.time() + gives_up_s)
            text += (
                f", will give up at {time.strftime('%H:%M:%S', at)}, "
                f"in {gives_up_s:.0f} s"
            )
        self.tell(text)

    def tell(self, text: str) -> None:
        """Show a line that the progress bar does not overwrite."""
        if self._quiet:
            return
        line = f"{command_line.PROGRAM}: {text}"
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=sys.stderr, flush=True)

    def progress(self, done_bytes: int, total_bytes: int) -> None:
        """Show progress; see :func:`fpgapool.client.run_stream`."""
        if self._bar is not None:
            self._bar.update(
                self._task,
                description="running",
                completed=done_bytes,
                total=total_bytes,
            )


def _make_bar() -> typing.Any:
    """Return a progress bar; None if its library is not installed."""
    # A late import: scripts that run without a terminal do not need it.
    try:
        import rich.console
        import rich.progress
    except ImportError:
        return None
    return rich.progress.Progress(
        rich.progress.TextColumn("{task.description}"),
        rich.progress.BarColumn(),
        rich.progress.DownloadColumn(),
        rich.progress.TransferSpeedColumn(),
        rich.progress.TimeRemainingColumn(),
        console=rich.console.Console(stderr=True),
        transient=True,
    )


def _state_text(view: client.SessionView) -> str:
    if view.reason and view.state == states.READY:
        return f"no slot ({view.reason}): computing on this machine's CPU"
    text = view.state.lower()
    if view.state == states.QUEUED:
        text = _waiting_text(view)
    if view.reason == codes.SET_WAITS:
        return f"{text}: {view.message}"
    if view.reason:
        text += f": {view.message or view.reason}; trying another"
    return text


def _waiting_text(view: client.SessionView) -> str:
    text = "waiting for a slot"
    if view.queue_position is not None:
        text += f", {view.queue_position} before this one"
    if wait := session.wait_text(view):
        text += f", {wait}"
    if view.pending_reasons:
        text += f" ({', '.join(view.pending_reasons)})"
    return text


def summary(report: client.RunReport) -> str:
    """Return the line about a session."""
    text = (
        f"{_amounts(report)} on {_place_text(report)}; "
        f"waited {report.waited_s:.3g} s"
    )
    for did, times in (
        ("reconnected", report.reconnects),
        ("moved to another slot", report.reopens),
        ("started over", report.restarts),
    ):
        if times:
            text += f"; {did} {units.count_text(times, 'time')}"
    if report.cpu_energy_j is not None:
        text += f"; the CPU used about {report.cpu_energy_j:.3g} J"
    if report.checksum:
        text += "; checksums match"
    return text


def chain_summary(report: client.ChainReport) -> str:
    """Return the lines about a chain: all of it, and its stages."""
    text = f"{_amounts(report)}; waited {report.waited_s:.3g} s"
    if report.restarts:
        text += f"; started over {units.count_text(report.restarts, 'time')}"
    for number, one in enumerate(report.stages, 1):
        place = f"{one.host}/{one.device} slot {one.slot}"
        if not one.session_id:
            place = "this machine's CPU"
        text += (
            f"\nstage {number}: {one.accelerator} on {place},"
            f" {units.bytes_text(one.output_bytes)} out"
        )
        if one.session_id and one.cpu_bytes:
            text += f"; the CPU had {units.bytes_text(one.cpu_bytes)} before"
        if one.reopens:
            times = units.count_text(one.reopens, "time")
            text += f"; moved to another slot {times}"
    return text


def group_summary(report: client.GroupReport, waited_s: float) -> str:
    """Return the line about a file that a group processed."""
    return (
        f"{_amounts(report)} with {units.count_text(report.tasks, 'task')} on"
        f" {units.count_text(report.members, 'member')};"
        f" waited {waited_s:.3g} s"
    )


def _amounts(
    report: client.RunReport | client.GroupReport | client.ChainReport,
) -> str:
    return (
        f"{units.bytes_text(report.input_bytes)} in, "
        f"{units.bytes_text(report.output_bytes)} out "
        f"in {report.ran_s:.3g} s "
        f"({units.bytes_text(report.bytes_per_s)}/s)"
    )


def _place_text(report: client.RunReport) -> str:
    if report.fallback_reason is not None:
        return f"the CPU of {report.host}, no slot ({report.fallback_reason})"
    if report.slot is None:
        return "this machine's CPU; no slot was free in time"
    return (
        f"{report.host}/{report.device} slot {report.slot}, "
        f"{'local' if report.local else 'remote'}"
    )


def dry_run_text(found: client.DryRun) -> str:
    """Return the line about a dry run."""
    text = _outcome_text(found)
    if found.budget_pct is None:
        return text
    return (
        f"{text}; it takes {found.budget_pct:.3g} % of what is left"
        " of the project's budget"
    )


def _outcome_text(found: client.DryRun) -> str:
    reasons = ", ".join(found.reasons)
    if found.fits:
        return "a slot is free now"
    if found.state == states.REJECTED:
        return f"the pool would refuse it: {reasons}: {found.message}"
    wait = session.wait_text(found) or "an unknown time"
    return f"it would wait for {wait} ({reasons})"


def listing(found: Iterable[client.Accelerator]) -> Iterator[str]:
    """Yield the lines about accelerators."""
    for one in found:
        yield (
            f"{one.name}: {units.bytes_text(one.peak_bytes_per_s)}/s at most, "
            f"{one.free_slots} of {units.count_text(one.slots, 'slot')} free: "
            f"{one.description}"
        )
        for line in shown.params_lines(one.params_schema):
            yield f"    {line}"
