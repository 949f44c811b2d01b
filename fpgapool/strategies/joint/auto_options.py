# SPDX-License-Identifier: Apache-2.0

"""The options of the strategy ``auto``."""

import dataclasses

from fpgapool.strategies import options as opts


@dataclasses.dataclass(frozen=True, slots=True)
class AutoOptions(opts.Numbers):
    """Options of the strategy ``auto``, all without units.

    "Its peak" is the rate that a job would get if only the DMA pipe limited
    it. Its service time is its claim divided by its accelerator's peak rate.

    :param size_power: a job's work is its bytes to this power …
    :param ageing: … divided by 1 + this × its wait in service times.
    :param min_share: a job whose own host has no board may go where its rate
        is at least this fraction of its peak …
    :param min_share_idle: … this fraction while many slots are idle …
    :param min_free: … or where at least this fraction of each pipe that it
        needs is free.
    :param patience: these two shares and ``leave_min_share`` are divided by
        1 + this × its wait in service times.
    :param leave_s_per_byte: a job leaves its own host, which has a board,
        after this many seconds per byte; at once while many slots are idle,
        or if it leaves the networks free enough.
    :param leave_min_share: it goes only where its rate is at least this
        fraction of its peak.
    :param leave_min_free: it leaves the networks free enough if this fraction
        of each network pipe that it uses stays free.
    :param leave_penalty: factor for the work of such a job …
    :param leave_penalty_idle: … and the factor while many slots are idle, or
        if it leaves the networks free enough.
    :param idle_share: "many slots are idle" means at least this fraction of
        all slots; above 1: never.
    :param loss_weight: the rates that other jobs lose because of a job, times
        this, are subtracted from its rate.
    :param spread: the work is multiplied by 1 + this × the fraction of the
        board's slots that are taken.
    :param programming_weight_max: programming delays all who wait: its time
        counts 1 + the waiting jobs per usable slot times, with this as the
        maximum of that quotient.
    :param look_again: if jobs and idle slots are left, the strategy looks
        again after this fraction of the mean service time.
    """

    size_power: float = 0.7
    ageing: float = 0.3
    min_share: float = 0.95
    min_share_idle: float = 0.7
    min_free: float = 0.2
    patience: float = 0.2
    leave_s_per_byte: float = 1e-9
    leave_min_share: float = 0.95
    leave_min_free: float = 0.5
    leave_penalty: float = 5.0
    leave_penalty_idle: float = 1.2
    idle_share: float = 0.3
    loss_weight: float = 0.4
    spread: float = 0.1
    programming_weight_max: float = 10.0
    look_again: float = 0.1

    def __post_init__(self) -> None:
        opts.Numbers.__post_init__(self)
        if not 0 < self.leave_penalty_idle <= self.leave_penalty:
            raise ValueError(
                "leave_penalty_idle must be above 0 and at most "
                f"leave_penalty, not {self.leave_penalty_idle} with "
                f"leave_penalty={self.leave_penalty}"
            )
