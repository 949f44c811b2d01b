# SPDX-License-Identifier: Apache-2.0

"""Runs a pool with emulated boards, ``fpgapool-allinone``, as a process."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator
from collections.abc import Sequence

from fpgapool.allinone import program
from fpgapool.sim import errors

Pool = program.Pool
with_log = program.with_log


@contextlib.contextmanager
def running(
    directory: pathlib.Path, options: Sequence[str], configuration: str
) -> Iterator[program.Pool]:
    """Run a pool, as :func:`fpgapool.allinone.program.running` does.

    :raises errors.SystemFailed: if it does not start.
    """
    with contextlib.ExitStack() as stack:
        try:
            pool = stack.enter_context(
                program.running(directory, options, configuration)
            )
        except program.NotStarted as error:
            raise errors.SystemFailed(str(error)) from error
        yield pool
