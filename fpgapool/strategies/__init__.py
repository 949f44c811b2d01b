# SPDX-License-Identifier: Apache-2.0

"""Scheduling strategies by name, for the ``fpgapool.strategies`` namespace.

Each factory takes options by name (:mod:`fpgapool.strategies.options`) and a
seed for random choices. It raises ValueError for unknown options and for
values out of their range.
"""

from collections import abc

import numpy

from fpgapool.core import strategy
from fpgapool.core.queues import thresholds as queue_thresholds
from fpgapool.strategies import base
from fpgapool.strategies import options as opts
from fpgapool.strategies.joint import era as era_strategy
from fpgapool.strategies.joint import hjf as hjf_strategy
from fpgapool.strategies.orderings import edf as edf_ordering
from fpgapool.strategies.orderings import fifo as fifo_ordering
from fpgapool.strategies.orderings import lpt as lpt_ordering
from fpgapool.strategies.orderings import random as random_ordering
from fpgapool.strategies.orderings import sjf as sjf_ordering
from fpgapool.strategies.orderings import wa as wa_ordering
from fpgapool.strategies.placements import affinity as affinity_placement
from fpgapool.strategies.placements import any as any_placement
from fpgapool.strategies.placements import ra as ra_placement

Options = opts.Options


def fifo(options: Options, seed: int) -> base.Strategy:
    """First come, first served, on any compatible slot."""
    opts.check_names(options)
    return base.ComposedStrategy(
        fifo_ordering.FifoOrdering(), _any(options, seed)
    )


def sjf(options: Options, seed: int) -> base.Strategy:
    """Shortest job first, on any compatible slot."""
    opts.check_names(options)
    return base.ComposedStrategy(
        sjf_ordering.SjfOrdering(), _any(options, seed)
    )


def edf(options: Options, seed: int) -> base.Strategy:
    """Earliest deadline first, on any compatible slot."""
    opts.check_names(options)
    return base.ComposedStrategy(
        edf_ordering.EdfOrdering(), _any(options, seed)
    )


def random(options: Options, seed: int) -> base.Strategy:
    """Jobs in a random order, on any compatible slot."""
    opts.check_names(options)
    return base.ComposedStrategy(
        random_ordering.RandomOrdering(seed), _any(options, seed)
    )


def wa(options: Options, seed: int) -> base.Strategy:
    """Workload-aware: priority queues by size, on any compatible slot."""
    opts.check_names(options)
    return base.ComposedStrategy(_wa(options), _any(options, seed))


def ra(options: Options, seed: int) -> base.Strategy:
    """Resource-aware: first come, first served, near its data."""
    opts.check_names(options)
    return base.ComposedStrategy(
        fifo_ordering.FifoOrdering(), _ra(options, seed, fallback=False)
    )


def wra(options: Options, seed: int) -> base.Strategy:
    """Workload- and resource-aware: the default."""
    opts.check_names(options)
    return base.ComposedStrategy(
        _wa(options), _ra(options, seed, fallback=True)
    )


def affinity(options: Options, seed: int) -> base.Strategy:
    """First come, first served, on devices that run the same accelerator.

    Its own options are those of
    :class:`~fpgapool.strategies.placements.affinity.AffinityOptions`.
    """
    own = opts.own(options, affinity_placement.AffinityOptions)
    ordering: base.Ordering = fifo_ordering.FifoOrdering()
    if own.largest_first:
        ordering = lpt_ordering.LptOrdering()
    placement = affinity_placement.AffinityPlacement(
        _ra_options(options, fallback=True),
        own.affinity_misses,
        numpy.random.default_rng(seed),
    )
    return base.ComposedStrategy(ordering, placement)


def era(options: Options, seed: int) -> strategy.Strategy:
    """Expected-rate-aware: pairs of jobs and boards by expected rates.

    Its own options are those of
    :class:`~fpgapool.strategies.joint.era.EraOptions`.
    """
    return era_strategy.EraStrategy(opts.own(options, era_strategy.EraOptions))


def hjf(options: Options, seed: int) -> strategy.Strategy:
    """Highest job first: the most work over the least time left.

    Its own options are those of
    :class:`~fpgapool.strategies.joint.hjf.HjfOptions`.
    """
    return hjf_strategy.HjfStrategy(
        opts.own(options, hjf_strategy.HjfOptions), _any(options, seed)
    )


def _any(options: Options, seed: int) -> any_placement.AnyPlacement:
    chosen = any_placement.AnyOptions(
        slot_choice=_order(options, "slot_choice")
    )
    return any_placement.AnyPlacement(chosen, numpy.random.default_rng(seed))


def _ra(options: Options, seed: int, fallback: bool) -> base.Placement:
    return ra_placement.RaPlacement(
        _ra_options(options, fallback), numpy.random.default_rng(seed)
    )


def _ra_options(options: Options, fallback: bool) -> ra_placement.RaOptions:
    default = ra_placement.RaOptions()
    return ra_placement.RaOptions(
        remote_limit=_limit(options, "remote_limit"),
        skip_limit=_limit(options, "skip_limit"),
        wait_s_per_byte=_number(
            options, "wait_s_per_byte", default.wait_s_per_byte
        ),
        fallback=_flag(options, "fallback", fallback),
        slot_choice=_order(options, "slot_choice"),
        offer_order=_order(options, "offer_order"),
        affinity=_flag(options, "affinity", default.affinity),
        affinity_wait_s=_number(
            options, "affinity_wait_s", default.affinity_wait_s
        ),
    )


def _wa(options: Options) -> base.Ordering:
    given = options.get("thresholds_bytes")
    hybrid = [name for name in opts.HYBRID if options.get(name) is not None]
    if given is None:
        thresholds = _hybrid_thresholds(options)
    elif hybrid:
        raise ValueError(
            f"{', '.join(hybrid)} cannot be used with thresholds_bytes; "
            "remove one of them"
        )
    elif isinstance(given, abc.Iterable) and not isinstance(given, str):
        thresholds = tuple(
            opts.as_number("thresholds_bytes", value) for value in given
        )
    else:
        raise ValueError(f"thresholds_bytes must be a list, not {given!r}")
    return wa_ordering.WaOrdering(wa_ordering.WaOptions(thresholds))


def _hybrid_thresholds(options: Options) -> tuple[float, ...]:
    return queue_thresholds.hybrid_thresholds(
        E_bytes=_number(options, "E_bytes", 20e6),
        q=_number(options, "q", 1.41),
        k1=_whole(options, "k1", 5),
        k2=_whole(options, "k2", 16),
        queues=_whole(options, "queues", 20),
    )


def _order(options: Options, name: str) -> str:
    value = options.get(name)
    return "least_busy" if value is None else str(value)


def _flag(options: Options, name: str, default: bool) -> bool:
    value = options.get(name)
    return default if value is None else opts.as_flag(name, value)


def _limit(options: Options, name: str) -> int | None:
    if options.get(name) is None:
        return None
    return _whole(options, name, 0)


def _whole(options: Options, name: str, default: int) -> int:
    value = options.get(name)
    return default if value is None else opts.as_whole(name, value)


def _number(options: Options, name: str, default: float) -> float:
    value = options.get(name)
    return default if value is None else opts.as_number(name, value)
