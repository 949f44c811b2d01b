# SPDX-License-Identifier: Apache-2.0

"""Who does the runs of a sweep: processes here, or a Dask cluster."""

from __future__ import annotations

import concurrent.futures
import importlib
import multiprocessing
import typing
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence

from fpgapool.sim import errors

_CONNECT_LIMIT_S = 10

_Task = typing.TypeVar("_Task")
_Result = typing.TypeVar("_Result")


def work_here(
    function: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    processes: int | None,
) -> Iterator[tuple[_Task, _Result]]:
    """Do tasks in processes of this machine.

    :param function: can be imported there.
    :param processes: how many; None: one for each processor.
    :returns: tasks and results as they come.
    :raises: what the function raises.
    """
    # Not forked: numba's and numpy's threads do not survive that.
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
    """Do tasks on a Dask cluster whose workers have fpgapool, too.

    :param address: of its scheduler, as ``tcp://host:8786``.
    :returns: tasks and results as they come.
    :raises errors.InputError: if there is no such cluster.
    :raises: what the function raises.
    """
    try:
        distributed: typing.Any = importlib.import_module("distributed")
    except ImportError as error:
        raise errors.InputError(
            "--scheduler", "", "needs Dask: pip install fpgapool[sim]"
        ) from error
    try:
        client = distributed.Client(address, timeout=_CONNECT_LIMIT_S)
    except (OSError, ValueError, TypeError) as error:
        raise errors.InputError(
            "--scheduler", address, "no Dask scheduler answers there"
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
