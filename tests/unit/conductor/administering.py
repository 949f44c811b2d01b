# SPDX-License-Identifier: Apache-2.0

"""What an operator does."""

from fpgapool.conductor.decisions import inputs
from fpgapool.core import model
from tests.unit.conductor import world


def administer(
    pool: world.Conductor,
    state: model.AdminState,
    within_s: float | None = None,
    *,
    host: str = "a",
    device: str | None = "board0",
    reason: str = "",
) -> bool:
    """Say what is to become of a board; return whether there is it."""
    wanted = inputs.Administer(
        host_uuid=host,
        device=device,
        state=state,
        reason=reason,
        drain_within_s=within_s,
    )
    return pool.answer(wanted) is None
