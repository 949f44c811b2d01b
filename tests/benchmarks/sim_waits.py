# SPDX-License-Identifier: Apache-2.0

"""How true expected waits are: ``python -m tests.benchmarks.sim_waits
SCENARIO.json … --strategy NAME …``.

Prints a row for each scenario and strategy: the number of first answers, the
mean expected wait divided by the mean actual wait, how many sessions waited
more than twice as long as expected, and how many waits were inside the range.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time

from fpgapool.sim.inputs import scenario_files
from tests.harness import wait_replay


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="+", type=pathlib.Path)
    parser.add_argument(
        "--strategy", nargs="+", default=["fifo", "wra", "sjf"]
    )
    options = parser.parse_args()
    _say(f"{'scenario':20} {'strategy':9} answers ratio short  inside  time")
    for path in options.scenarios:
        scenario = scenario_files.read(path)
        for strategy in options.strategy:
            began_s = time.monotonic()
            told = wait_replay.replay(scenario, strategy)
            score = wait_replay.Score.of(told)
            _say(
                f"{path.stem:20} {strategy:9} {score.count:7}"
                f" {score.mean_ratio:5.2f} {score.too_short:6.1%}"
                f" {score.inside:6.1%} {time.monotonic() - began_s:4.0f} s"
            )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
