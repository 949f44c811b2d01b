# SPDX-License-Identifier: Apache-2.0

"""Play many schedules: ``python -m tests.world``."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import gc
import itertools
import json
import os
import pathlib
import sys
import time
import typing
from collections.abc import Iterable
from collections.abc import Iterator

#: Objects in sets have the same order in every run.
_HASH_SEED = "0"
OUTPUT = pathlib.Path("world-out")
_KEPT = pathlib.Path(__file__).with_name("kept")
_SHOWN_PROBLEMS = 3
#: Which schedules have something; None: the seed decides.
_WHICH = {"some": None, "all": True, "no": False}


def main(arguments: list[str]) -> int:
    """Do what the command line says.

    :returns: 0 if all went well, 1 if a schedule failed, 2 if the command
        line is wrong.
    """
    from tests.world import parts

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
    for name, one in parts.ALL.items():
        parser.add_argument(
            f"--{name}",
            dest=name,
            choices=tuple(_WHICH),
            default="some",
            help=one.HELP,
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
        help="play all schedules that are kept, without bugs",
    )
    parser.add_argument(
        "--bugs",
        nargs="*",
        metavar="BUG",
        help="plant bugs, all or these, one at a time: the schedule that is"
        " kept for each must show it",
    )
    parser.add_argument(
        "--find-bugs",
        nargs="*",
        metavar="BUG",
        help="renew the schedules of bugs, all or these, that do not show them"
        " any more",
    )
    options = parser.parse_args(arguments)
    from tests.world import bugs
    from tests.world import database

    for name in (*(options.bugs or ()), *(options.find_bugs or ())):
        if name not in bugs.BUGS:
            parser.error(f"there is no bug {name}")
    content = database.empty()
    if options.replay:
        return _replay([options.replay], content, options)
    status = 0
    if options.kept:
        status = _replay(sorted(_KEPT.rglob("*.json")), content, options)
    if options.bugs is not None:
        status = max(status, _show_bugs(content, options))
    if options.find_bugs is not None:
        status = max(status, _find_bugs(content, options))
    if options.seeds:
        status = max(status, _play_seeds(content, options))
    return status


def _replay(
    paths: Iterable[pathlib.Path],
    content: bytes,
    options: argparse.Namespace,
) -> int:
    from tests.world import parts
    from tests.world import run

    # Several bugs may be shown by one schedule, which is played once here.
    names: dict[str, list[str]] = {}
    played = {}
    for path in paths:
        schedule = parts.read(path)
        played[schedule.text()] = schedule
        names.setdefault(schedule.text(), []).append(path.name)
    wanted = (
        run.Wanted(", ".join(names[text]), schedule)
        for text, schedule in played.items()
    )
    status = 0
    for name, result in _player(content, options)(wanted):
        _say(f"{name}: {_summary(result)}")
        _print_problems(result)
        status = max(status, bool(result.problems))
    return status


def _play_seeds(content: bytes, options: argparse.Namespace) -> int:
    from tests.world import run

    first, _, last = options.seeds.partition(":")
    seeds = iter(range(int(first), int(last or first) + 1))
    started_s = time.monotonic()
    count = virtual_s = 0.0
    failed = None
    results = _player(content, options)(
        run.Wanted(drawn, drawn)
        for seed in _until(seeds, started_s, options.seconds)
        for drawn in [_drawn(seed, options)]
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
    seed: int, options: argparse.Namespace, part: str | None = None
) -> typing.Any:
    """Draw a schedule.

    :param part: one that it has, whatever the options say.
    """
    from tests.world import parts

    having = {name: _WHICH[getattr(options, name)] for name in parts.ALL}
    if part is not None:
        having[part] = True
    return parts.draw(seed, sessions=options.sessions, having=having)


def _until(
    seeds: Iterator[int], started_s: float, limit_s: float | None
) -> Iterator[int]:
    for seed in seeds:
        if limit_s is not None and time.monotonic() - started_s > limit_s:
            return
        yield seed


def _keep(schedule: typing.Any, content: bytes) -> None:
    """Cut a schedule that fails short, and write it down."""
    from tests.world import parts
    from tests.world import run
    from tests.world import schedule as schedules

    _say("looking for a shorter schedule that fails, too")
    short = schedules.shrink(
        schedule,
        list(parts.LISTS),
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


def _show_bugs(content: bytes, options: argparse.Namespace) -> int:
    from tests.world import bugs
    from tests.world import hunt

    planted = {name: bugs.BUGS[name] for name in options.bugs or bugs.BUGS}
    play = _player(content, options)
    hidden = hunt.show(planted, _kept_for_bugs(planted), play, _say)
    return 1 if hidden else 0


def _find_bugs(content: bytes, options: argparse.Namespace) -> int:
    from tests.world import bugs
    from tests.world import hunt

    status = 0
    names = options.find_bugs or list(bugs.BUGS)
    kept = _kept_for_bugs(names)
    for name in names:
        bug, known = bugs.BUGS[name], kept.get(name)
        draw = functools.partial(_drawn, options=options, part=bug.part)
        drawn = map(draw, itertools.count(1))
        play = _player(content, options)
        found = hunt.find(name, bug, known, drawn, play, _say)
        if found is None:
            status = 1
        elif found != known:
            hunt.path_of(name).write_text(found.text())
    return status


def _kept_for_bugs(names: Iterable[str]) -> dict[str, typing.Any]:
    from tests.world import hunt
    from tests.world import parts

    return {
        name: parts.read(path)
        for name in names
        if (path := hunt.path_of(name)).exists()
    }


def _player(content: bytes, options: argparse.Namespace) -> typing.Any:
    from tests.world import run

    return functools.partial(
        run.play_side_by_side, database=content, processes=options.processes
    )


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
