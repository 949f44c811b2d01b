# SPDX-License-Identifier: Apache-2.0

"""Every slot at work with each accelerator once, before times are measured.

Workers load the software that stands for an accelerator when it is first
asked for, for seconds where many do it at once. A board has no such thing:
there, only programming takes time.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import threading
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool import client

#: No job asks for it: slots that have it are programmed for whatever comes.
_NEUTRAL = "copy"


@dataclasses.dataclass(frozen=True)
class Work:
    """What a slot does.

    :ivar params: what the accelerator is told.
    :ivar size_bytes: of its input.
    """

    accelerator: str
    params: Mapping[str, object] = dataclasses.field(default_factory=dict)
    size_bytes: int = 1


def warm_up(
    works: Sequence[Work], slots: int, front_door: str, timeout_s: float
) -> None:
    """Have slots do each work once.

    In the end they are programmed with what no job asks for.

    :param works: one of each accelerator.
    :param slots: how many; all that there are, or some if there is no work.
    :param front_door: socket of the front door of any host.
    :param timeout_s: for each session.
    :raises fpgapool.client.FpgapoolError: if one fails.
    """
    for work in (*works, Work(_NEUTRAL)):
        _use_slots(work, slots, front_door, timeout_s)


def _use_slots(
    work: Work, slots: int, front_door: str, timeout_s: float
) -> None:
    cancel = client.CancelToken()
    all_open = threading.Barrier(slots)

    def use() -> None:
        with client.acc_open(
            work.accelerator,
            work.size_bytes,
            params=work.params,
            front_door=front_door,
            timeout_s=timeout_s,
            cancel=cancel,
            # The worker looks at the parameters in any case.
            verify=False,
        ) as session:
            # Each has a slot of its own before the first one gives it back.
            all_open.wait()
            session.run(work.size_bytes, timeout_s=timeout_s)

    with concurrent.futures.ThreadPoolExecutor(slots) as executor:
        try:
            # An interrupt while they are submitted ends them, too.
            futures = [executor.submit(use) for _ in range(slots)]
            done, _ = concurrent.futures.wait(
                futures, return_when=concurrent.futures.FIRST_EXCEPTION
            )
        finally:
            # Nobody is left to be cancelled if all went well.
            cancel.cancel()
            all_open.abort()
    for future in done:
        future.result()
