# SPDX-License-Identifier: Apache-2.0

"""Play many schedules: ``python -m tests.world``."""

from __future__ import annotations

import argparse
import dataclasses
import gc
import itertools
import json
import os
import pathlib
import select
import sys
import time
import typing
from collections.abc import Iterable
from collections.abc import Iterator

#: Objects in sets have the same order in every run.
_HASH_SEED = "0"
OUTPUT = pathlib.Path("world-out")
_KEPT = pathlib.Path(__file__).with_name("kept")
#: How long a planted bug may stay hidden.
_BUG_LIMIT_S = 60.0
_SHOWN_PROBLEMS = 3
#: Which schedules have something; None: the seed decides.
_WHICH = {"some": None, "all": True, "no": False}


def main(arguments: list[str]) -> int:
    """Do what the command line says.

    :returns: 0 if all went well, 1 if a schedule failed, 2 if the command
        line is wrong.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.world")
    parser.add_argument(
        "--seeds",
        metavar="FIRST:LAST",
        help="play the schedules of these seeds",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        help="begin no schedule after so many seconds",
    )
    parser.add_argument(
        "--processes", type=int, default=len(os.sched_getaffinity(0))
    )
    parser.add_argument(
        "--sessions", type=int, default=200, help="in a schedule"
    )
    parser.add_argument(
        "--groups",
        choices=tuple(_WHICH),
        default="some",
        help="which schedules have groups",
    )
    parser.add_argument(
        "--preemption",
        choices=tuple(_WHICH),
        default="some",
        help="in which schedules sessions take slots from others",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="say what became of each"
    )
    parser.add_argument(
        "--replay",
        type=pathlib.Path,
        metavar="FILE",
        help="play a schedule that was kept",
    )
    parser.add_argument(
        "--kept",
        action="store_true",
        help="play all schedules that are kept as tests",
    )
    parser.add_argument(
        "--bugs",
        nargs="*",
        metavar="BUG",
        help="plant bugs, all or these, one at a time: each must be found",
    )
    options = parser.parse_args(arguments)
    from tests.world import database

    content = database.empty()
    if options.replay:
        return _replay([options.replay], content)
    status = 0
    if options.kept:
        status = _replay(sorted(_KEPT.glob("*.json")), content)
    if options.bugs is not None:
        status = max(status, _find_bugs(content, options))
    if options.seeds:
        status = max(status, _play_seeds(content, options))
    return status


def _replay(paths: Iterable[pathlib.Path], content: bytes) -> int:
    from tests.world import run
    from tests.world import schedule as schedules

    status = 0
    for path in paths:
        result = run.play_apart(schedules.Schedule.read(path), content)
        _say(f"{path.name}: {_summary(result)}")
        _print_problems(result)
        status = max(status, bool(result.problems))
    return status


def _play_seeds(content: bytes, options: argparse.Namespace) -> int:
    first, _, last = options.seeds.partition(":")
    seeds = iter(range(int(first), int(last or first) + 1))
    started_s = time.monotonic()
    count = virtual_s = 0.0
    failed = None
    results = _results(
        (
            _drawn(seed, options)
            for seed in _until(seeds, started_s, options.seconds)
        ),
        content,
        options.processes,
    )
    for schedule, result in results:
        count += 1
        virtual_s += result.virtual_s
        if options.verbose:
            _say(_summary(result))
        if result.problems and failed is None:
            failed = schedule
            _say(f"seed {schedule.seed}: {_summary(result)}")
            _print_problems(result)
            results.close()
            break
    took_s = time.monotonic() - started_s
    _say(
        f"{count:.0f} schedules, {virtual_s / 60:.0f} virtual minutes in"
        f" {took_s:.0f} s: {count / took_s * 60:.0f} schedules per minute"
    )
    if failed is None:
        return 0
    _keep(failed, content)
    return 1


def _drawn(
    seed: int,
    options: argparse.Namespace,
    *,
    groups: bool | None = None,
    preempts: bool | None = None,
) -> typing.Any:
    from tests.world import faults
    from tests.world import schedule as schedules

    if groups is None:
        groups = _WHICH[options.groups]
    if preempts is None:
        preempts = _WHICH[options.preemption]
    return schedules.draw(
        seed,
        list(faults.FAULTS),
        sessions=options.sessions,
        group_kinds=list(faults.GROUP_FAULTS),
        groups=groups,
        preempts=preempts,
    )


def _until(
    seeds: Iterator[int], started_s: float, limit_s: float | None
) -> Iterator[int]:
    for seed in seeds:
        if limit_s is not None and time.monotonic() - started_s > limit_s:
            return
        yield seed


def _keep(schedule: typing.Any, content: bytes) -> None:
    """Cut a schedule that fails short, and write it down."""
    from tests.world import run
    from tests.world import schedule as schedules

    _say("looking for a shorter schedule that fails, too")
    short = schedules.shrink(
        schedule,
        lambda other: bool(run.play_apart(other, content).problems),
    )
    OUTPUT.mkdir(exist_ok=True)
    path = OUTPUT / f"seed-{schedule.seed}.json"
    path.write_text(short.text())
    _say(
        f"{len(short.visits)} visits and {len(short.faults)} faults are left:"
        f" {[one.kind for one in short.faults]}\n"
        f"wrote {path}; again: python -m tests.world --replay {path}"
    )


def _results(
    wanted: Iterator[typing.Any],
    content: bytes,
    processes: int,
    change: typing.Callable[[], None] | None = None,
) -> typing.Generator[tuple[typing.Any, typing.Any], None, None]:
    """Play schedules side by side; yield what became of each."""
    from tests.world import run

    running: dict[int, tuple[typing.Any, run.Player]] = {}
    poller = select.poll()
    try:
        while True:
            for schedule in itertools.islice(wanted, processes - len(running)):
                player = run.Player(schedule, content, change)
                running[player.fileno()] = schedule, player
                poller.register(player.fileno(), select.POLLIN)
            if not running:
                return
            for fd, _events in poller.poll():
                schedule, player = running[fd]
                if player.read():
                    poller.unregister(fd)
                    del running[fd]
                    yield schedule, player.result()
    finally:
        for _schedule, player in running.values():
            player.kill()


def _find_bugs(content: bytes, options: argparse.Namespace) -> int:
    from tests.world import bugs

    hidden = []
    for name in options.bugs or bugs.BUGS:
        bug = bugs.BUGS[name]
        started_s = time.monotonic()
        results = _results(
            (
                _drawn(
                    seed,
                    options,
                    groups=bug.groups or None,
                    preempts=bug.preempts or None,
                )
                for seed in _until(
                    itertools.chain([bug.seed], itertools.count(1)),
                    started_s,
                    _BUG_LIMIT_S,
                )
            ),
            content,
            options.processes,
            bug.plant,
        )
        found = next((one for _, one in results if one.problems), None)
        results.close()
        took_s = time.monotonic() - started_s
        if found is None:
            hidden.append(name)
            _say(f"{name}: NOT FOUND in {took_s:.0f} s")
        else:
            line = found.problems[0].splitlines()[0]
            _say(
                f"{name}: seed {found.seed}, {took_s:.0f} s: {line:.120}",
            )
    return 1 if hidden else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _summary(result: typing.Any) -> str:
    members = dataclasses.asdict(result)
    del members["problems"]
    return json.dumps(members)


def _print_problems(result: typing.Any) -> None:
    for problem in result.problems[:_SHOWN_PROBLEMS]:
        _say(f"  {problem}".replace("\n", "\n  "))


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != _HASH_SEED:
        os.execve(
            sys.executable,
            [
                *(sys.executable, "-W", "ignore", "-m", "tests.world"),
                *sys.argv[1:],
            ],
            {
                **os.environ,
                "PYTHONHASHSEED": _HASH_SEED,
                # Its threads would spin, and nothing here multiplies.
                "OPENBLAS_NUM_THREADS": "1",
                # oslo.service imports eventlet, which need not import a tenth
                # of all that there is.
                "EVENTLET_NO_GREENDNS": "yes",
            },
        )
    # What it imports stays, and it makes little else.
    gc.disable()
    sys.exit(main(sys.argv[1:]))
