# SPDX-License-Identifier: Apache-2.0

"""Report a transfer's progress to the program, or to people."""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Callable
from collections.abc import Iterator

from fpgapool.client import errors

#: Called with the input bytes done and the total.
Progress: typing.TypeAlias = Callable[[int, int], object]


@contextlib.contextmanager
def reporting(
    progress: Progress | bool | None, name: str
) -> Iterator[Progress | None]:
    """Return the function that gets the progress; None: nobody wants it.

    :param progress: the program's function; True: a bar of tqdm.
    :param name: what the bar says.
    :raises errors.InvalidRequest: if tqdm is not installed, or the argument is
        none of these.
    """
    if progress is None or progress is False:
        yield None
    elif progress is not True:
        if not callable(progress):
            raise errors.invalid("progress must be a function, True or None")
        yield progress
    else:
        with _bar(name) as report:
            yield report


@contextlib.contextmanager
def _bar(name: str) -> Iterator[Progress]:
    try:
        import tqdm
    except ImportError as exc:
        raise errors.invalid(
            "progress=True requires tqdm: pip install 'fpgapool[progress]' "
            f"({exc})"
        ) from exc
    with tqdm.tqdm(
        desc=name, unit="B", unit_scale=True, unit_divisor=1024
    ) as bar:

        def report(done_bytes: int, total_bytes: int) -> None:
            bar.total = total_bytes
            # It goes back if the transfer starts over.
            bar.update(done_bytes - bar.n)

        yield report
