# SPDX-License-Identifier: Apache-2.0

"""Run the gate. The exit status is 0 if it passed, 1 if not."""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import signal
import sys
from collections.abc import Sequence

from tests.gate import plan
from tests.gate import report
from tests.gate import runner as runners
from tests.services import shared

_DIRECTORY = pathlib.Path("build/gate")
_INTERRUPTED_STATUS = 130


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.gate", description=__doc__
    )
    parser.add_argument(
        "--all", action="store_true", help="with the long tests"
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=plan.Settings.processes,
        metavar="COUNT",
        help="that run functional tests side by side (default: %(default)s)",
    )
    return parser


def _run(settings: plan.Settings, runner: runners.Runner) -> bool:
    jobs = plan.plan(settings)
    _say(f"== the gate; all output is in {_DIRECTORY}/JOB.log")
    runner.run(jobs)
    tests = {
        job.name: report.read(job.junit)
        for job in jobs
        if job.junit is not None
    }
    others = report.unexplained(runner.states, runner.statuses, tests)
    names = report.to_retry(runner.states, runner.statuses, tests)
    passed = set(runner.states.values()) == {plan.State.PASSED}
    steady = True
    if names:
        _say(f"== {len(names)} failed tests run once more, alone")
        retry = settings.tests("retry", *names)
        runner.run([retry])
        passed = runner.states["retry"] is plan.State.PASSED
        steady = not passed
    every = [test for some in tests.values() for test in some]
    _say(report.tables(runner.begins_s, runner.ends_s, every))
    for line in report.closing(runner.states, tests, others, steady):
        _say(line)
    verb = "passed" if passed else "FAILED"
    _say(f"the gate {verb} in {runner.elapsed_s():.0f} s")
    return passed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the gate.

    :param arguments: None means the process's own.
    """
    args = _parser().parse_args(arguments)
    # Whoever ends the gate ends it in order.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    shutil.rmtree(_DIRECTORY, ignore_errors=True)
    _DIRECTORY.mkdir(parents=True)
    environment = {"HYPOTHESIS_PROFILE": "ci", **os.environ}
    try:
        with shared.Lender() as lender:
            environment[shared.VARIABLE] = str(lender.file)
            settings = plan.Settings(
                sys.executable,
                _DIRECTORY,
                lender.start,
                long=args.all,
                processes=args.processes,
            )
            with runners.Runner(_DIRECTORY, environment, _say) as runner:
                return 0 if _run(settings, runner) else 1
    except KeyboardInterrupt:
        _say("interrupted")
        return _INTERRUPTED_STATUS


if __name__ == "__main__":
    sys.exit(main())
