# SPDX-License-Identifier: Apache-2.0

"""Keeps the garbage collector away from a long queue.

Sessions are in no reference cycles, so reference counting frees them. Without
this module the collector would traverse all of them while they are being read,
and again whenever the process has grown by a quarter, and stop all threads
meanwhile.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def filling() -> Iterator[None]:
    """Disable the collector during the block.

    Objects that exist at the end of the block are ignored until :func:`spill`
    is called.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def spill(*, collect: bool) -> None:
    """Let the collector handle all objects again."""
    gc.unfreeze()
    if collect:
        gc.collect()
