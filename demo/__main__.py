# SPDX-License-Identifier: Apache-2.0

"""The demo: a small cluster at work, in three acts."""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
import sys
import typing
from collections.abc import Sequence

from demo import errors
from demo import pool
from demo.acts import comparison
from demo.acts import encryption
from demo.acts import sharing
from fpgapool.cmd import launch
from fpgapool.common import interrupts
from fpgapool.sim import screen
from fpgapool.vocabulary import scheduling

PROGRAM = "fpgapool-demo"
ACTS = ("1", "2", "3", "all")

DEFAULT_JOBS = 40
DEFAULT_TOTAL_MB = 300
DEFAULT_SEED = 1
MAX_JOBS = 500

_NO_ACT_TWO = (
    "it compares strategies at modelled rates, and the rates of other drivers"
    " are those of this machine"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo.

    :param argv: the command line without the program; None means the
        process's own.
    :returns: 0 if everything went well, 1 after a failure, 2 for a wrong
        command line, 130 after Ctrl-C.
    """
    arguments = _parse(argv)
    try:
        with interrupts.interruptible():
            _perform(arguments)
        return 0
    except errors.DemoError as error:
        return _complain(str(error), 1)
    except OSError as error:
        return _complain(f"FILE_ERROR: {error}", 1)
    except KeyboardInterrupt:
        return _complain("interrupted; everything was stopped", 130)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = _parser()
    arguments = parser.parse_args(argv)
    is_emulated = arguments.driver == pool.EMULATOR
    if arguments.act == ACTS[1] and not is_emulated:
        parser.error(f"act two needs the emulator: {_NO_ACT_TWO}")
    if arguments.rate_scale is not None and not is_emulated:
        parser.error("--rate-scale needs the emulator")
    return arguments


def _complain(text: str, status: int) -> int:
    print(f"{PROGRAM}: {text}", file=sys.stderr)
    return status


def _perform(arguments: argparse.Namespace) -> None:
    _require_matplotlib()
    console = screen.make_console()
    acts = ACTS[:-1] if arguments.act == ACTS[-1] else (arguments.act,)
    arguments.out.mkdir(parents=True, exist_ok=True)
    if "1" in acts:
        screen.say(console, "== act one: files, encrypted")
        encryption.perform(_encryption_settings(arguments), console)
    if "2" in acts and arguments.driver != pool.EMULATOR:
        screen.say(console, f"== act two is left out: {_NO_ACT_TWO}")
    elif "2" in acts:
        screen.say(console, "== act two: the same mixed load, fifo and wra")
        settings = comparison.Settings(out=arguments.out, seed=arguments.seed)
        comparison.perform(settings, console)
    if "3" in acts:
        screen.say(console, "== act three: two groups share slots")
        sharing.perform(
            sharing.Settings(
                out=arguments.out,
                seed=arguments.seed,
                driver=arguments.driver,
            ),
            console,
        )


def _encryption_settings(
    arguments: argparse.Namespace,
) -> encryption.Settings:
    return encryption.Settings(
        files=arguments.files,
        out=arguments.out,
        jobs=arguments.jobs,
        total_bytes=arguments.total_mb * 10**6,
        seed=arguments.seed,
        rate_scale=arguments.rate_scale,
        driver=arguments.driver,
        strategy=arguments.strategy,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description=f"Start a pool of {pool.HOSTS} hosts and {pool.BOARDS}"
        f" emulated boards with {pool.SLOTS} slots each. Act one encrypts"
        " files from all hosts at once. Act two runs the same mixed load"
        " under fifo and under wra. In act three, programs share two groups"
        " of fixed and of elastic sizes. The demo checks every output, and"
        " draws the jobs of each slot and the sizes of groups over time.",
    )
    parser.add_argument(
        "--act",
        choices=ACTS,
        default=ACTS[-1],
        help=f"the act to perform; default {ACTS[-1]}",
    )
    parser.add_argument(
        "--driver",
        default=pool.EMULATOR,
        metavar="NAME",
        help="driver of the boards; default emulator. With opencl the OpenCL"
        " devices of this machine compute, in acts one and three",
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=pathlib.Path("demo-out"),
        metavar="DIR",
        help="write the pictures into this directory; default demo-out",
    )
    parser.add_argument(
        "--seed",
        type=_whole_number(0, 2**63),
        default=DEFAULT_SEED,
        metavar="S",
        help="seed of sizes, contents, keys and arrivals; default"
        f" {DEFAULT_SEED}",
    )
    _add_encryption_options(parser.add_argument_group("act one"))
    return parser


def _add_encryption_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--file",
        dest="files",
        action="append",
        type=pathlib.Path,
        default=[],
        metavar="F",
        help="encrypt this file, too, without changing it; may be repeated",
    )
    group.add_argument(
        "--jobs",
        type=_whole_number(1, MAX_JOBS),
        default=DEFAULT_JOBS,
        metavar="N",
        help=f"number of generated files; default {DEFAULT_JOBS}",
    )
    group.add_argument(
        "--total-mb",
        type=_whole_number(1, 10**6),
        default=DEFAULT_TOTAL_MB,
        metavar="MB",
        help="total size of the generated files in MB; default"
        f" {DEFAULT_TOTAL_MB}",
    )
    group.add_argument(
        "--rate-scale",
        type=float,
        metavar="X",
        help="multiply all modelled rates by X; by default the boards work for"
        f" about {encryption.WORK_S:g} s",
    )
    group.add_argument(
        "--strategy",
        default="wra",
        metavar="NAME",
        help="the scheduler's strategy; default wra; "
        f"{scheduling.FITTING_SIZES}",
    )


def _whole_number(lowest: int, highest: int) -> typing.Callable[[str], int]:
    def whole_number(text: str) -> int:
        value = int(text)
        if not lowest <= value <= highest:
            raise argparse.ArgumentTypeError(
                f"must be from {lowest} to {highest}"
            )
        return value

    return whole_number


def _require_matplotlib() -> None:
    # Fail before the work, not after it.
    if importlib.util.find_spec("matplotlib") is None:
        raise errors.DemoError(
            errors.MISSING_LIBRARY,
            "matplotlib is needed for the picture: pip install fpgapool[plot]",
        )


if __name__ == "__main__":
    sys.exit(launch.guarded(PROGRAM, main))
