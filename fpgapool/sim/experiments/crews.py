# SPDX-License-Identifier: Apache-2.0

"""Does many runs, in processes on this machine or on a Dask cluster."""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib
import multiprocessing
import typing
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence

from fpgapool.sim import errors
from fpgapool.sim import screen

_CONNECT_LIMIT_S = 10
_MAX_PROCESSES = 1024

_Task = typing.TypeVar("_Task")
_Result = typing.TypeVar("_Result")


def add_processes(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--processes",
        type=screen.whole(1, _MAX_PROCESSES),
        metavar="N",
        help="number of local processes that run simulations; default: one "
        "per processor",
    )


def work_here(
    function: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    processes: int | None,
) -> Iterator[tuple[_Task, _Result]]:
    """Do tasks in processes on this machine.

    :param processes: number of processes; None: one per processor.
    :raises: the function's errors.
    """
    if not tasks:
        return
    # The threads of numba and numpy do not survive a fork.
    with concurrent.futures.ProcessPoolExecutor(
        processes, multiprocessing.get_context("spawn")
    ) as executor:
        futures = {executor.submit(function, task): task for task in tasks}
        try:
            for future in concurrent.futures.as_completed(futures):
                yield futures[future], future.result()
        finally:
            executor.shutdown(cancel_futures=True)


def work_there(
    function: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    address: str,
) -> Iterator[tuple[_Task, _Result]]:
    """Do tasks on a Dask cluster whose workers have fpgapool installed.

    :param address: address of its scheduler, such as ``tcp://host:8786``.
    :raises errors.InputError: if there is no such cluster.
    :raises: the function's errors.
    """
    if not tasks:
        return
    try:
        distributed: typing.Any = importlib.import_module("distributed")
    except ImportError as error:
        raise errors.InputError(
            "--scheduler",
            "",
            "Dask is not installed; install it with: "
            "pip install 'fpgapool[sim]'",
        ) from error
    try:
        client = distributed.Client(address, timeout=_CONNECT_LIMIT_S)
    except (OSError, ValueError, TypeError) as error:
        raise errors.InputError(
            "--scheduler", address, "no Dask scheduler answered"
        ) from error
    with client:
        futures = client.map(function, tasks, pure=False)
        by_key = {
            future.key: task
            for future, task in zip(futures, tasks, strict=True)
        }
        try:
            for future in distributed.as_completed(futures):
                yield by_key[future.key], future.result()
        finally:
            client.cancel(futures)
