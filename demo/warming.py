# SPDX-License-Identifier: Apache-2.0

"""Uses each accelerator once in every slot, before times are measured.

Workers load the software of an emulated accelerator at its first use, which
takes seconds if many workers do so at once. With real boards, only programming
takes time.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import threading
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool import client

#: No job asks for it, so that each first job has its slot programmed.
_NEUTRAL = "copy"


@dataclasses.dataclass(frozen=True)
class Work:
    """The work of a slot.

    :ivar params: parameters of the accelerator.
    :ivar size_bytes: of its input.
    """

    accelerator: str
    params: Mapping[str, object] = dataclasses.field(default_factory=dict)
    size_bytes: int = 1


def warm_up(
    works: Sequence[Work], slots: int, front_door: str, timeout_s: float
) -> int:
    """Let slots do each work once.

    At the end they have an accelerator that no job asks for.

    :param works: one of each accelerator.
    :param slots: number of all slots, or of some if there is no work.
    :param front_door: socket of the front door of any host.
    :param timeout_s: for each session.
    :returns: the number of sessions.
    :raises fpgapool.client.FpgapoolError: if one fails.
    """
    all_works = (*works, Work(_NEUTRAL))
    for work in all_works:
        _use_slots(work, slots, front_door, timeout_s)
    return len(all_works) * slots


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
            # The worker checks the parameters in any case.
            verify=False,
        ) as session:
            # All sessions have slots before the first one gives its slot back.
            all_open.wait()
            session.run(work.size_bytes, timeout_s=timeout_s)

    with concurrent.futures.ThreadPoolExecutor(slots) as executor:
        try:
            # An interrupt during submission ends the sessions, too.
            futures = [executor.submit(use) for _ in range(slots)]
            done, _ = concurrent.futures.wait(
                futures, return_when=concurrent.futures.FIRST_EXCEPTION
            )
        finally:
            # If all went well, this changes nothing.
            cancel.cancel()
            all_open.abort()
    for future in done:
        future.result()
