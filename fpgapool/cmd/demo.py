#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The demo: a small cluster encrypts many files, and all are checked."""

from __future__ import annotations

import argparse
import importlib.util
import math
import pathlib
import signal
import sys
import tempfile
import typing
from collections.abc import Sequence

import numpy as np
import rich.console
import rich.markup

from fpgapool.demo import display
from fpgapool.demo import errors
from fpgapool.demo import execution
from fpgapool.demo import pool
from fpgapool.demo import verification
from fpgapool.demo import workload
from fpgapool.sim import metrics
from fpgapool.sim import plots

PROGRAM = "fpgapool-demo"
PICTURE_NAME = "timeline.png"

DEFAULT_JOBS = 40
DEFAULT_TOTAL_MB = 600
DEFAULT_SEED = 1
MAX_JOBS = 500

#: Modelled rate of all boards of the default testbed together.
_BOARDS_BYTES_PER_S = pool.BOARDS * 2.1e9
#: How long the boards shall have to work, so that there is something to see.
_WORK_S = 9.0
#: More than this is more than two processor cores can compute.
_HIGHEST_SCALE = 0.03
#: The default thresholds are made for a mean of 400 MB and begin at 20 MB.
_FIRST_THRESHOLD_SHARE = 20 / 400


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo.

    :param argv: the command line without the program; None means the
        process's own.
    :returns: 0 if everything went well, 1 after a failure, 2 for a wrong
        command line, 130 after Ctrl-C.
    """
    arguments = _parser().parse_args(argv)
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        _Demo(arguments).run()
        return 0
    except errors.DemoError as error:
        return _complain(str(error), 1)
    except OSError as error:
        return _complain(f"FILE_ERROR: {error}", 1)
    except KeyboardInterrupt:
        return _complain("interrupted, everything was stopped", 130)
    finally:
        signal.signal(signal.SIGTERM, previous)


def _interrupt(_number: int, _frame: object) -> typing.NoReturn:
    raise KeyboardInterrupt


def _complain(text: str, status: int) -> int:
    print(f"{PROGRAM}: {text}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description=f"Start a pool of {pool.HOSTS} hosts and {pool.BOARDS}"
        f" emulated boards with {pool.SLOTS} slots each, encrypt files from"
        " all hosts at once, check every output, and draw who had which slot"
        " when.",
    )
    parser.add_argument(
        "--file",
        dest="files",
        action="append",
        type=pathlib.Path,
        default=[],
        metavar="F",
        help="encrypt this file, too; it is only read; may be repeated",
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=pathlib.Path("demo-out"),
        metavar="DIR",
        help="directory for the picture; default demo-out",
    )
    parser.add_argument(
        "--jobs",
        type=_whole_number(1, MAX_JOBS),
        default=DEFAULT_JOBS,
        metavar="N",
        help=f"how many files are generated; default {DEFAULT_JOBS}",
    )
    parser.add_argument(
        "--total-mb",
        type=_whole_number(1, 10**6),
        default=DEFAULT_TOTAL_MB,
        metavar="MB",
        help=f"what they have together; default {DEFAULT_TOTAL_MB}",
    )
    parser.add_argument(
        "--seed",
        type=_whole_number(0, 2**63),
        default=DEFAULT_SEED,
        metavar="S",
        help=f"seed of sizes, contents and keys; default {DEFAULT_SEED}",
    )
    parser.add_argument(
        "--rate-scale",
        type=float,
        metavar="X",
        help="factor of all modelled rates; default is one that lets the"
        f" boards work for about {_WORK_S:g} s",
    )
    parser.add_argument(
        "--strategy",
        default="wra",
        metavar="NAME",
        help="how the jobs are scheduled; default wra",
    )
    return parser


def _whole_number(lowest: int, highest: int) -> typing.Callable[[str], int]:
    def whole_number(text: str) -> int:
        value = int(text)
        if not lowest <= value <= highest:
            raise argparse.ArgumentTypeError(
                f"must be from {lowest} to {highest}"
            )
        return value

    return whole_number


class _Demo:
    """One run of the demo."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._console = display.make_console()
        self._total_bytes = arguments.total_mb * 10**6
        self._rng = np.random.default_rng(arguments.seed)

    def run(self) -> None:
        """Do everything.

        :raises DemoError: if something goes wrong.
        """
        arguments = self._arguments
        _require_matplotlib()
        user_bytes = workload.check_files(arguments.files)
        arguments.out.mkdir(parents=True, exist_ok=True)
        scale = arguments.rate_scale
        if scale is None:
            scale = _scale(self._total_bytes + user_bytes)
        with tempfile.TemporaryDirectory(prefix="fpgapool-demo-") as name:
            directory = pathlib.Path(name)
            workload.check_space(directory, self._total_bytes, user_bytes)
            self._say(
                f"starting a pool of {pool.HOSTS} hosts and {pool.BOARDS}"
                f" emulated boards with {pool.SLOTS} slots each, all modelled"
                f" rates scaled by {scale:g}"
            )
            with pool.running(directory, self._tuning(scale)) as testbed:
                outcomes = self._encrypt(directory, testbed)
            self._verify([outcome.job for outcome in outcomes])
        self._show(outcomes, testbed, scale)

    def _tuning(self, scale: float) -> pool.Tuning:
        mean_bytes = self._total_bytes / self._arguments.jobs
        return pool.Tuning(
            scale,
            self._arguments.strategy,
            math.ceil(mean_bytes * _FIRST_THRESHOLD_SHARE),
        )

    def _encrypt(
        self, directory: pathlib.Path, testbed: pool.Pool
    ) -> list[execution.Outcome]:
        arguments = self._arguments
        self._say(
            f"generating {arguments.jobs} files,"
            f" {arguments.total_mb} MB together, seed {arguments.seed}"
        )
        sizes_bytes = workload.draw_sizes_bytes(
            arguments.jobs, self._total_bytes, self._rng
        )
        jobs = workload.make_jobs(
            directory, testbed.hosts, sizes_bytes, arguments.files, self._rng
        )
        self._say(
            f"encrypting {len(jobs)} files by AES-256-CTR, from"
            f" {len(testbed.hosts)} hosts at once"
        )
        with display.make_display(self._console, jobs) as shown:
            return execution.run_jobs(jobs, testbed.front_doors, shown)

    def _verify(self, jobs: Sequence[workload.Job]) -> None:
        tool = verification.find_tool()
        with display.counting(
            self._console, f"decrypting with {tool}", len(jobs)
        ) as on_checked:
            verification.check_outputs(jobs, tool, on_checked)
        self._say(
            f"verified: {tool} decrypts all {len(jobs)} outputs to their"
            " inputs"
        )

    def _show(
        self,
        outcomes: Sequence[execution.Outcome],
        testbed: pool.Pool,
        scale: float,
    ) -> None:
        results = [outcome.result() for outcome in outcomes]
        self._console.print()
        display.show_jobs(self._console, outcomes)
        self._console.print()
        display.show_metrics(self._console, metrics.measure(results))
        self._console.print()
        path = self._arguments.out / PICTURE_NAME
        self._draw(path, results, testbed, scale)
        self._say(f"who had which slot when: {path.resolve()}")
        self._say(
            f"all modelled rates were scaled by {scale:g}: times and MB/s"
            " are those of boards that much slower; the scheduler's size"
            " thresholds and waiting limits were scaled to the files' sizes"
            " and these rates"
        )

    def _draw(
        self,
        path: pathlib.Path,
        results: Sequence[metrics.JobResult],
        testbed: pool.Pool,
        scale: float,
    ) -> None:
        slots = [
            plots.SlotName(host, f"board{board}", number)
            for host, boards in testbed.boards.items()
            for board in range(boards)
            for number in range(testbed.slots_per_board)
        ]
        measured = metrics.measure(results)
        plots.draw_timeline(
            results,
            path,
            slots=slots,
            title=f"{len(results)} jobs from {len(testbed.hosts)} hosts on"
            f" {len(slots)} slots",
            subtitle=f"strategy {self._arguments.strategy} · rates × {scale:g}"
            f" · ACT {measured.act_s:.2f} s · TCT(95) {measured.tct95_s:.2f} s"
            f" · SAR {measured.sar:.2f} · DLR {measured.dlr:.2f}"
            f" · makespan {measured.makespan_s:.2f} s",
        )

    def _say(self, text: str) -> None:
        self._console.print(rich.markup.escape(text), soft_wrap=True)


def _require_matplotlib() -> None:
    # Better before the work than after it.
    if importlib.util.find_spec("matplotlib") is None:
        raise errors.DemoError(
            errors.MISSING_LIBRARY,
            "matplotlib is needed for the picture: pip install fpgapool[demo]",
        )


def _scale(total_bytes: int) -> float:
    """Return a factor of two digits for so much work."""
    scale = total_bytes / _BOARDS_BYTES_PER_S / _WORK_S
    digits = 1 - math.floor(math.log10(scale))
    return min(_HIGHEST_SCALE, round(scale, digits))


if __name__ == "__main__":
    sys.exit(main())
