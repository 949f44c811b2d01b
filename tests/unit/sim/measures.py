# SPDX-License-Identifier: Apache-2.0

"""Metrics of runs that need not be simulated."""

from fpgapool.sim.outcomes import metrics


def measured(
    act_s: float = 1.0,
    tct95_s: float = 1.0,
    sar: float = 0.5,
    dlr: float = 0.01,
) -> metrics.Metrics:
    return metrics.Metrics(
        jobs=100,
        act_s=act_s,
        tct95_s=tct95_s,
        p50_s=act_s,
        p99_s=tct95_s,
        sar=sar,
        dlr=dlr,
        makespan_s=100.0,
        wait_mean_s=act_s / 2,
        wait_p95_s=tct95_s / 2,
        wait_p99_s=tct95_s / 2,
    )
