# SPDX-License-Identifier: Apache-2.0

"""Run a big pool without workers, and print what it costs.

The exit status is 0 if nothing was lost, 1 if something was. It takes some
minutes at the default sizes.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
import time
from collections.abc import Sequence

import rich.console

from tests.scale import report
from tests.scale import run as runs
from tests.services import mariadb as mariadb_service
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.scale", description=__doc__
    )
    for field in dataclasses.fields(runs.Options):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=type(field.default),
            default=field.default,
            help="default: %(default)s",
        )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=pathlib.Path("scale-out"),
        help="directory of the files (default: %(default)s)",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for."""
    values = vars(_parser().parse_args(arguments))
    out = values.pop("out")
    options = runs.Options(**values)

    console = rich.console.Console(soft_wrap=True, highlight=False)

    def say(text: str) -> None:
        console.print(f"{time.strftime('%H:%M:%S')} {text}", markup=False)

    with process.Workspace() as workspace:
        rabbitmq = rabbitmq_service.RabbitMQ(workspace)
        rabbitmq.start()
        mariadb = mariadb_service.MariaDB(workspace, durable=True)
        mariadb.start()
        with runs.staged(options, workspace, rabbitmq, mariadb, say) as run:
            try:
                findings = run.play()
            finally:
                report.save(run, out)
    console.print(report.text(findings), markup=False)
    say(f"the table for the documentation and logs are in {out}")
    return 1 if findings.problems else 0


if __name__ == "__main__":
    sys.exit(main())
