# SPDX-License-Identifier: Apache-2.0

"""Stops the garbage collector from traversing a long queue.

Sessions are not part of reference cycles, so reference counting frees them.
Without this module, the collector would traverse all of them while they are
being loaded, and again whenever the process has grown by a quarter; each time,
all threads would stop.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def filling() -> Iterator[None]:
    """Disable the collector during the block.

    The collector ignores objects that exist at the end of the block until
    :func:`spill` is called.
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
