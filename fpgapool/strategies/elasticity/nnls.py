# SPDX-License-Identifier: Apache-2.0

"""Sizes in proportion to the waiting work.

Algorithm 1 of *High Performance in the Cloud with FPGA Groups*. It is named
after the runtime estimate that it was published with; here the operator
chooses the estimate (:mod:`fpgapool.core.sizing.runtimes`).
"""

from fpgapool.core.sizing import apportion
from fpgapool.core.sizing import elasticity


class NnlsPolicy(elasticity.Policy):
    """Divides the slots in proportion to waiting slot-seconds.

    A group without waiting tasks shrinks to its minimum, but keeps at least
    one slot. If no tasks are waiting at all, the sizes do not change.
    """

    def resize(self, view: elasticity.View, now: float) -> elasticity.Sizes:
        work = [group.waiting_s for group in view.groups]
        known = [each for each in work if each is not None]
        if len(known) < len(work) or not sum(known) > 0:
            return {}
        sizes = apportion.proportional(
            known,
            view.slots,
            [max(group.floor, 1) for group in view.groups],
            [group.max_size for group in view.groups],
        )
        return {
            group.id: size
            for group, size in zip(view.groups, sizes, strict=True)
        }
