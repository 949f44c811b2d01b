# SPDX-License-Identifier: Apache-2.0

"""Static groups: each keeps the size that its owner gave it."""

from fpgapool.core.sizing import elasticity


class NonePolicy(elasticity.Policy):
    """Changes no size."""

    sizes_all = False

    def resize(self, view: elasticity.View, now: float) -> elasticity.Sizes:
        """Return no sizes."""
        return {}

    def check_period(
        self, period_s: float, programming_time_s: float
    ) -> str | None:
        """Accept any period: no slot changes its group."""
        return None
