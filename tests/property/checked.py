# SPDX-License-Identifier: Apache-2.0

"""Strategies that compare themselves with the literal rules in every pass."""

import hypothesis.strategies as st

from fpgapool import strategies
from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from tests.property import literal

MB = 1e6
THRESHOLDS_BYTES = (100 * MB, 300 * MB)
ORDERS = ("index", "random", "least_busy")
FACTORIES = {
    "fifo": (strategies.fifo, "fifo", "any"),
    "sjf": (strategies.sjf, "sjf", "any"),
    "wa": (strategies.wa, "wa", "any"),
    "ra": (strategies.ra, "fifo", "ra"),
    "wra": (strategies.wra, "wa", "ra"),
    "affinity": (strategies.affinity, "fifo", "affinity"),
}


def make_rules(
    name: str, options: dict[str, object], seed: int
) -> literal.Rules:
    """The literal rules of a strategy with these options."""
    _, ordering, placement = FACTORIES[name]
    common = {k: v for k, v in options.items() if v is not None}
    common.setdefault("fallback", name == "wra")
    common.setdefault("affinity", placement == "affinity")
    rules = literal.Rules(ordering, placement, **common)
    rules.reseed(seed)
    return rules


class CheckedStrategy(strategy.Strategy):
    """A strategy, and the literal rules beside it.

    :ivar passes: how many passes it made.
    """

    def __init__(
        self, name: str, options: dict[str, object], seed: int
    ) -> None:
        factory, _, _ = FACTORIES[name]
        self._real = factory(options, seed)
        self.idle_indexes = self._real.idle_indexes
        self.wants_hosts = self._real.wants_hosts
        self.wants_affinity = self._real.wants_affinity
        self.skip_limit = self._real.skip_limit
        self.rules = make_rules(name, options, seed)
        self.passes = 0

    def key(self, job: model.Job) -> ordered.Key:
        return self._real.key(job)

    def patience_s(self, job: model.Job) -> float | None:
        return self._real.patience_s(job)

    def remote_limit(self, slot_count: int) -> int | None:
        return self._real.remote_limit(slot_count)

    def assign(
        self, view: pool_view.PoolView, now: float
    ) -> list[strategy.Choice]:
        self.passes += 1
        expected = literal.snapshot(self.rules, view, now)
        expected.run()
        choices = list(self._real.assign(view, now))
        assert [(c.job_id, c.slot_id) for c in choices] == expected.choices
        skips = {job.id: job.skips for job in expected.jobs}
        assert skips == {i: view.record(i).skips for i in skips}
        return choices

    def reasons(
        self, view: pool_view.PoolView, job_id: model.JobId
    ) -> tuple[str, ...]:
        return self._real.reasons(view, job_id)


@st.composite
def strategy_settings(
    draw: st.DrawFn, name: str
) -> tuple[str, dict[str, object], int]:
    """A strategy with any of its options, and a seed."""
    options: dict[str, object] = {"slot_choice": draw(st.sampled_from(ORDERS))}
    if name in ("wa", "wra"):
        options["thresholds_bytes"] = THRESHOLDS_BYTES
    if name in ("ra", "wra"):
        options["offer_order"] = draw(st.sampled_from(ORDERS))
        options["remote_limit"] = draw(st.sampled_from([None, 0, 1, 2, 9]))
        options["skip_limit"] = draw(st.sampled_from([None, 0, 1, 3]))
        options["wait_s_per_byte"] = draw(
            st.sampled_from([0.0, 1e-8, 1e-7, float("inf")])
        )
        options["fallback"] = draw(st.sampled_from([None, False, True]))
        options["affinity"] = draw(st.sampled_from([None, None, True]))
    if name == "affinity":
        options["offer_order"] = draw(st.sampled_from(ORDERS))
        options["affinity_misses"] = draw(st.sampled_from([None, None, 0, 7]))
        options["largest_first"] = draw(st.booleans())
    if options.get("affinity") or name == "affinity":
        options["affinity_wait_s"] = draw(
            st.sampled_from([None, 0.0, 3.0, float("inf")])
        )
    return name, options, draw(st.integers(0, 3))
