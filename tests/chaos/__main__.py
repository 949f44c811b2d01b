# SPDX-License-Identifier: Apache-2.0

"""Run faults on a pool under load: a table, JSON and logs in files.

The exit status is 0 if all that must hold has held, 1 if not. The seed decides
what clients do and which faults hit what; when exactly, the machine decides.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import secrets
import sys
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence

import rich.console

from tests.chaos import budgets
from tests.chaos import crowd as crowds
from tests.chaos import faults
from tests.chaos import plan
from tests.chaos import pool as pools
from tests.chaos import report
from tests.chaos import run as runs
from tests.functional.api import harness as api_harness
from tests.harness import cloud as clouds
from tests.services import mariadb as mariadb_service
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service

_MOST_CLIENTS = 1000


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=__doc__
    )
    parser.add_argument(
        "kinds",
        nargs="*",
        metavar="FAULT",
        help="faults to choose from, all by default: "
        + ", ".join(kind.title for kind in faults.KINDS),
    )
    parser.add_argument("--seed", type=int, help="default: a new one")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--conductors", type=int, default=2)
    parser.add_argument(
        "--alone",
        action="store_true",
        help="never two faults at a time",
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=pathlib.Path("chaos-out"),
        help="directory of the files (default: %(default)s)",
    )
    return parser


def parse(
    arguments: Sequence[str] | None,
) -> tuple[runs.Options, pathlib.Path]:
    """Read the command line; exits where it is wrong.

    :returns: what the run is like, and where its files go.
    """
    parser = _parser()
    args = parser.parse_args(arguments)
    try:
        kinds = faults.named(args.kinds)
    except ValueError as error:
        parser.error(str(error))
    if not 0 < args.minutes <= 24 * 60:
        parser.error("--minutes must be more than 0 and at most a day")
    if not 1 <= args.clients <= _MOST_CLIENTS:
        parser.error(f"--clients must be 1 to {_MOST_CLIENTS}")
    if not 2 <= args.conductors <= 5:
        parser.error("--conductors must be 2 to 5")
    seed = secrets.randbits(32) if args.seed is None else args.seed
    options = runs.Options(
        seed=seed,
        duration_s=args.minutes * 60,
        clients=args.clients,
        kinds=kinds,
        conductors=args.conductors,
        second_share=0.0 if args.alone else plan.SECOND_SHARE,
    )
    return options, args.out


def doors_of(pool: pools.Pool, project_id: str) -> list[str]:
    """Return where clients ask: every host, and the API twice as often."""
    sockets = [host.socket_path(project_id) for host in pool.hosts.values()]
    api = f"http://{pool.api.address}"
    return [*sockets, api, api]


@contextlib.contextmanager
def staged(
    options: runs.Options,
    workspace: process.Workspace,
    rabbitmq: rabbitmq_service.RabbitMQ,
    mariadb: mariadb_service.MariaDB,
    say: Callable[[str], object],
) -> Iterator[runs.Run]:
    """Start pool and clients for a run, and end them afterwards.

    :param say: is told how things stand.
    """
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(
            pools.Pool(workspace, rabbitmq, mariadb, options.conductors)
        )
        # Whatever a run that was interrupted has left undone.
        stack.callback(pool.ensure_running)
        books = budgets.Books(pool, pool.api, options.seed)
        books.open()
        crowd = stack.enter_context(
            crowds.Crowd(
                options.seed,
                options.clients,
                doors_of(pool, clouds.PROJECT),
                api_harness.TOKEN,
                pool.groups,
                crowds.Tenant(
                    doors_of(pool, clouds.OTHER_PROJECT),
                    api_harness.OTHER_TOKEN,
                ),
            )
        )
        yield runs.Run(options, pool, crowd, books, say)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for."""
    options, out = parse(arguments)
    console = rich.console.Console(soft_wrap=True, highlight=False)

    def say(text: str) -> None:
        console.print(f"{time.strftime('%H:%M:%S')} {text}", markup=False)

    say(f"seed {options.seed}")
    with contextlib.ExitStack() as stack:
        workspace = stack.enter_context(process.Workspace())
        rabbitmq = rabbitmq_service.RabbitMQ(workspace)
        rabbitmq.start()
        mariadb = mariadb_service.MariaDB(workspace)
        mariadb.start()
        run = stack.enter_context(
            staged(options, workspace, rabbitmq, mariadb, say)
        )
        try:
            run.play()
        finally:
            rows = runs.save(run, out)
    console.print(report.text(rows, f"seed {options.seed}"), markup=False)
    books = run.books
    console.print(report.of_budgets(budgets.rows(books.looks)), markup=False)
    got_bytes = run.got_bytes()
    say(
        f"{books.takeovers} times a conductor began to lead; clients got"
        f" {got_bytes} bytes, and {books.looks[-1].bytes:.0f} were charged"
    )
    resent, least = run.resent(), run.least
    say(
        f"long streams were sent again in part: {resent.reopens} reopens"
        f" (at least {least.reopens}), {resent.resumes} resumes (at least"
        f" {least.resumes})"
    )
    tasks = sum(batch.right for batch in run.batches())
    say(f"groups: {tasks} tasks in {len(run.batches())} visits")
    say(f"tables and logs are in {out}")
    if run.problems:
        say(f"{len(run.problems)} problems; repeat with --seed {options.seed}")
    return 1 if run.problems else 0


if __name__ == "__main__":
    sys.exit(main())
