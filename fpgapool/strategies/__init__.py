# SPDX-License-Identifier: Apache-2.0

"""Scheduling strategies by name, for the ``fpgapool.strategies`` namespace.

Each factory takes options by name (:mod:`fpgapool.strategies.options`) and a
seed for random choices. It raises ValueError for unknown options and for
values out of range. A strategy reads the pool's view and keeps no state about
jobs.

``orderings``, ``placements``
    Parts of composed strategies (``base``), which choose a job and its slot.
``joint``
    Strategies that choose jobs and slots together.
``shared``, ``rounds``, ``preemption``
    Fair shares, limits and preemption on top of any strategy.
``elasticity``
    Policies that size groups.
"""

import dataclasses

import numpy

from fpgapool.core import strategy
from fpgapool.core.queues import claims as recent_claims
from fpgapool.core.queues import thresholds as queue_thresholds
from fpgapool.strategies import base
from fpgapool.strategies import options as opts
from fpgapool.strategies import orderings
from fpgapool.strategies.joint import auto as auto_strategy
from fpgapool.strategies.joint import era as era_strategy
from fpgapool.strategies.joint import hjf as hjf_strategy
from fpgapool.strategies.placements import affinity as affinity_placement
from fpgapool.strategies.placements import any as any_placement
from fpgapool.strategies.placements import ra as ra_placement
from fpgapool.vocabulary import scheduling

Options = opts.Options

# The first of fixed thresholds if only others of their options are given.
_FIRST_THRESHOLD_BYTES = 20e6


def fifo(options: Options, seed: int) -> base.Strategy:
    """First come, first served, on any compatible slot."""
    return _on_any(orderings.FifoOrdering(), options, seed)


def sjf(options: Options, seed: int) -> base.Strategy:
    """Shortest job first, on any compatible slot."""
    return _on_any(orderings.SjfOrdering(), options, seed)


def edf(options: Options, seed: int) -> base.Strategy:
    """Earliest deadline first, on any compatible slot."""
    return _on_any(orderings.EdfOrdering(), options, seed)


def random(options: Options, seed: int) -> base.Strategy:
    """Jobs in a random order, on any compatible slot."""
    return _on_any(orderings.RandomOrdering(seed), options, seed)


def wa(options: Options, seed: int) -> base.Strategy:
    """Workload-aware: priority queues by size, on any compatible slot."""
    ordering, claims = _wa(options)
    return _on_any(ordering, options, seed, claims)


def ra(options: Options, seed: int) -> base.Strategy:
    """Resource-aware: first come, first served, near the job's data."""
    return _near_data(orderings.FifoOrdering(), options, seed, fallback=False)


def wra(options: Options, seed: int) -> base.Strategy:
    """Workload- and resource-aware: the default."""
    ordering, claims = _wa(options)
    return _near_data(ordering, options, seed, claims, fallback=True)


def affinity(options: Options, seed: int) -> base.Strategy:
    """First come, first served, on devices that run the same accelerator.

    See :class:`~fpgapool.strategies.placements.affinity.AffinityOptions`.
    """
    own = opts.own(options, affinity_placement.AffinityOptions)
    ordering: base.Ordering = orderings.FifoOrdering()
    if own.largest_first:
        ordering = orderings.LptOrdering()
    placement = affinity_placement.AffinityPlacement(
        opts.shared(options),
        own.affinity_misses,
        numpy.random.default_rng(seed),
    )
    return base.ComposedStrategy(ordering, placement)


def era(options: Options, seed: int) -> strategy.Strategy:
    """Expected-rate-aware: pairs jobs and boards by their expected rates.

    See :class:`~fpgapool.strategies.joint.era.EraOptions`.
    """
    return era_strategy.EraStrategy(opts.own(options, era_strategy.EraOptions))


def auto(options: Options, seed: int) -> strategy.Strategy:
    """Weighs work, waiting time, expected rates and programming time.

    Its own options are those of
    :class:`~fpgapool.strategies.joint.auto_options.AutoOptions`.
    """
    return auto_strategy.AutoStrategy(
        opts.own(options, auto_strategy.AutoOptions)
    )


def hjf(options: Options, seed: int) -> strategy.Strategy:
    """Highest job first: the highest ratio of work left to time left.

    See :class:`~fpgapool.strategies.joint.hjf.HjfOptions`.
    """
    return hjf_strategy.HjfStrategy(
        opts.own(options, hjf_strategy.HjfOptions), _any(options, seed)
    )


def _on_any(
    ordering: base.Ordering,
    options: Options,
    seed: int,
    claims: recent_claims.RecentClaims | None = None,
) -> base.Strategy:
    opts.check_names(options)
    return base.ComposedStrategy(ordering, _any(options, seed), claims)


def _any(options: Options, seed: int) -> any_placement.AnyPlacement:
    return any_placement.AnyPlacement(
        opts.shared(options), numpy.random.default_rng(seed)
    )


def _near_data(
    ordering: base.Ordering,
    options: Options,
    seed: int,
    claims: recent_claims.RecentClaims | None = None,
    *,
    fallback: bool,
) -> base.Strategy:
    """Compose an ordering with the placement ``ra``.

    :param fallback: its value if the options do not have one: jobs then wait
        before they take slots that are kept for others.
    """
    opts.check_names(options)
    shared = opts.shared(options)
    after_wait = shared.fallback is None
    if shared.fallback is None:
        shared = dataclasses.replace(shared, fallback=fallback)
    if shared.remote_limit is None and claims is None:
        claims = recent_claims.RecentClaims()
    queue_of = None
    if isinstance(ordering, orderings.WaOrdering) and ordering.learns:
        # Fixed queues are those of the paper, where programming is free.
        queue_of = ordering.queue_of
    placement = ra_placement.RaPlacement(
        shared,
        numpy.random.default_rng(seed),
        queue_of=queue_of,
        after_wait=after_wait,
    )
    return base.ComposedStrategy(ordering, placement, claims)


def _wa(
    options: Options,
) -> tuple[base.Ordering, recent_claims.RecentClaims | None]:
    """Return the ordering by size, and the claims that it learns from."""
    opts.check_names(options)
    shared = opts.shared(options)
    bounds = shared.thresholds_bytes
    hybrid = [
        name for name in scheduling.HYBRID if options.get(name) is not None
    ]
    if bounds is not None and hybrid:
        raise ValueError(
            f"{', '.join(hybrid)} cannot be used with thresholds_bytes; "
            "remove one or the other"
        )
    if bounds is None and hybrid in ([], ["queues"]):
        claims = recent_claims.RecentClaims(shared.queues)
        return orderings.WaOrdering(claims), claims
    if bounds is None:
        values = {name: getattr(shared, name) for name in scheduling.HYBRID}
        if shared.E_bytes is None:
            values["E_bytes"] = _FIRST_THRESHOLD_BYTES
        bounds = queue_thresholds.hybrid_thresholds(**values)
    return orderings.WaOrdering(queue_thresholds.Fixed(bounds)), None
