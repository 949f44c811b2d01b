# SPDX-License-Identifier: Apache-2.0

"""fpgapool-dev try: an accelerator in a pool of its own, from source."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable
from collections.abc import Iterator

from fpgapool import client
from fpgapool.allinone import program
from fpgapool.cmd.developing import checks
from fpgapool.cmd.developing import subjects
from fpgapool.cmd.managing import trials
from fpgapool.common import exception
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions

_ONE_SLOT = ("--hosts=1", "--boards=1", "--slots=1")
_MIB = 1 << 20

#: What can go wrong while an accelerator is prepared or used.
ERRORS = (
    client.FpgapoolError,
    exception.FpgapoolException,
    exceptions.CodedError,
)

_RUNTIME = (
    "install an OpenCL runtime, such as Debian's package pocl-opencl-icd;"
    " 'clinfo -l' lists the devices, of which --platform and --device choose"
)
#: What to do, by the code of an error.
_ADVICE = {
    codes.CORE_UNAVAILABLE: "make the module importable, or name its class in"
    " the member core of the profile",
    codes.DEVICE_FAILED: _RUNTIME,
    codes.INVALID_ARGUMENT: "give the first vector the arguments that the"
    " accelerator takes",
    codes.INVALID_INPUT: "give the first vector input that the accelerator"
    " takes: it is repeated",
    codes.INVALID_MANIFEST: "correct this member of the manifest",
    codes.INVALID_PARAMS: "give the first vector parameters that the"
    " accelerator takes",
    codes.INVALID_PROFILE: "correct this member of the profile, or make a new"
    " one with 'fpgapool-dev new core'",
    codes.KERNEL_BUILD_FAILED: "correct the program where the compiler says",
    codes.SOURCE_REFUSED: "remove that from the program; if it needs it, an"
    " option --allow-... permits it",
    codes.TIMEOUT: "if the accelerator only needs longer, or the machine is"
    " busy, set a longer limit with --timeout-s",
}


class Stopped(Exception):
    """A step failed, without which the others make no sense."""


class Steps:
    """The steps of a trial; prints each as it ends, unless told otherwise.

    On a terminal it prints the name of each when it begins, too.
    """

    def __init__(self, shown: bool) -> None:
        self.done: list[trials.Step] = []
        self._shown = shown

    def run(self, name: str, work: Callable[[], str | checks.Check]) -> None:
        """Run a step.

        :raises Stopped: if it raises an error.
        """
        begun = time.perf_counter()
        if self._shown and sys.stdout.isatty():
            # The line about its end is longer, and takes its place.
            print(f"...     {name}", end="\r", flush=True)
        try:
            found = work()
        except ERRORS as error:
            self._add(name, checks.Check(trials.FAILED, _told(error)), begun)
            raise Stopped from error
        if isinstance(found, str):
            found = checks.Check(trials.PASSED, found)
        self._add(name, found, begun)

    def _add(self, name: str, found: checks.Check, begun: float) -> None:
        took_s = time.perf_counter() - begun
        step = trials.Step("", name, *found, values={"time_s": took_s})
        self.done.append(step)
        if self._shown:
            print(
                f"{step.outcome:7} {step.name:10} {took_s:6.2f} s "
                f" {step.detail}",
                flush=True,
            )

    @property
    def passed(self) -> bool:
        return all(step.outcome != trials.FAILED for step in self.done)


def run(args: argparse.Namespace) -> int:
    """Try a file; return the exit code: 0 passed, 1 failed.

    :raises ConfigurationError: if the file cannot be tried at all.
    """
    subject = subjects.of_file(args.file, args)
    shown = args.format == "table"
    steps = Steps(shown)
    begun = time.perf_counter()
    with contextlib.suppress(Stopped):
        _try(subject, steps, args)
    took_s = time.perf_counter() - begun
    if shown:
        print(_verdict(subject, steps, took_s))
    else:
        print(json.dumps(_document(subject, steps), indent=2))
    return 0 if steps.passed else 1


def _try(
    subject: subjects.Subject, steps: Steps, args: argparse.Namespace
) -> None:
    with tempfile.TemporaryDirectory(prefix="fp-dev-") as name:
        directory = pathlib.Path(name)
        files = directory / "files"
        files.mkdir()
        for step, work in subject.preparations(files):
            steps.run(step, work)
        with contextlib.ExitStack() as stack:
            pools: list[program.Pool] = []

            def start() -> str:
                pool = stack.enter_context(
                    _pool(subject, directory, files, args.start_timeout_s)
                )
                pools.append(pool)
                return "one host with one slot, on this machine"

            steps.run("pool", start)
            for step, work in subject.registrations(pools[0]):
                steps.run(step, work)
            (front_door,) = pools[0].front_doors.values()
            made = checks.Checks(
                subject,
                front_door,
                args.timeout_s,
                int(args.size_mib * _MIB),
            )
            for check in (
                made.vectors,
                made.cuts,
                made.reference,
                made.rate,
            ):
                steps.run(check.__name__, check)


@contextlib.contextmanager
def _pool(
    subject: subjects.Subject,
    directory: pathlib.Path,
    files: pathlib.Path,
    start_timeout_s: float,
) -> Iterator[program.Pool]:
    """Start a pool of one slot.

    :raises FpgapoolException: with the end of its output, if it does not
        start.
    """
    with contextlib.ExitStack() as stack:
        try:
            pool = stack.enter_context(
                program.running(
                    directory / "pool",
                    (*_ONE_SLOT, *subject.options),
                    subject.configuration(files),
                    subject.environment(files),
                    start_timeout_s,
                    _say_stopping,
                )
            )
        except program.NotStarted as error:
            raise exception.FpgapoolException(
                f"{error}\n    {_why_slow()}",
                code=codes.FRONT_DOOR_UNAVAILABLE,
            ) from error
        yield pool


def _say_stopping() -> None:
    print("stopping the pool", file=sys.stderr, flush=True)


def _why_slow() -> str:
    """Return what to do about a pool that was not ready in time."""
    load, cpus = os.getloadavg()[0], os.cpu_count() or 1
    busy = f"{load:.1f} programs wait for {cpus} CPUs"
    if load > cpus:
        return (
            f"the machine is busy: {busy}; try again when it is not, or set a"
            " longer limit with --start-timeout-s"
        )
    return f"a longer limit: --start-timeout-s (the machine is idle: {busy})"


def _told(error: BaseException) -> str:
    code = getattr(error, "code", codes.INTERNAL_ERROR)
    text = getattr(error, "message", str(error))
    if isinstance(error, exception.ConfigurationError):
        text = error.reason
    # Errors of other parts of the product begin with the code.
    text = text.removeprefix(f"{code}: ")
    advice = _ADVICE.get(code)
    return f"{code}: {text}" + (f"; what to do: {advice}" if advice else "")


def _verdict(subject: subjects.Subject, steps: Steps, took_s: float) -> str:
    words = "PASSED" if steps.passed else "FAILED"
    failed = [one.name for one in steps.done if one.outcome == trials.FAILED]
    absent = [one.name for one in steps.done if one.outcome == trials.ABSENT]
    text = f"{words}: {subject.name} ({subject.path.name})"
    if failed:
        text += f"; failed: {', '.join(failed)}"
    if absent:
        text += f"; not compared, for lack of: {', '.join(absent)}"
    return f"{text}; {took_s:.1f} s"


def _document(subject: subjects.Subject, steps: Steps) -> dict[str, object]:
    return {
        "accelerator": subject.name,
        "passed": steps.passed,
        "steps": [
            {
                "name": step.name,
                "outcome": step.outcome,
                "detail": step.detail,
                **step.values,
            }
            for step in steps.done
        ],
    }
