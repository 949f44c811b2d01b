# SPDX-License-Identifier: Apache-2.0

"""The garbage collector, and a queue that may be long.

Sessions are freed by counting references: there are no cycles through them.
The collector does not know, and would look at all of them again and again
while they are being read, and whenever the process has grown by a quarter,
while everybody waits.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def filling() -> Iterator[None]:
    """Read what stays: nothing is collected, now and until :func:`spill`.

    What exists at the end of the block is passed over by the collector.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def spill(*, collect: bool) -> None:
    """Have the collector look at everything again.

    :param collect: and have it do so at once.
    """
    gc.unfreeze()
    if collect:
        gc.collect()
