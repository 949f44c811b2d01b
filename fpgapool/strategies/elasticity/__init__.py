# SPDX-License-Identifier: Apache-2.0

"""Elasticity policies by name, for the ``fpgapool.elasticity`` namespace.

Each factory takes the policy's own options by name
(:func:`fpgapool.strategies.options.own`). It raises ValueError for unknown
options and for values out of range. A policy divides the slots of a scaling
set and keeps no state about groups.
"""

import typing
from collections import abc

from fpgapool.core.sizing import elasticity
from fpgapool.strategies import options as opts
from fpgapool.strategies.elasticity import ahead
from fpgapool.strategies.elasticity import edf
from fpgapool.strategies.elasticity import hybrid
from fpgapool.strategies.elasticity import nnls
from fpgapool.strategies.elasticity import throughput

_Own = typing.TypeVar("_Own")


def make_none(options: opts.Options) -> elasticity.Policy:
    """Each group keeps its size."""
    opts.check_names(options, shared=())
    return elasticity.Fixed()


def make_nnls(options: opts.Options) -> elasticity.Policy:
    """Sizes in proportion to the waiting work."""
    opts.check_names(options, shared=())
    return nnls.NnlsPolicy()


def _factory(
    policy: abc.Callable[[_Own], elasticity.Policy], kind: type[_Own]
) -> abc.Callable[[opts.Options], elasticity.Policy]:
    return lambda options: policy(opts.own(options, kind, shared=()))


make_ahead = _factory(ahead.AheadPolicy, ahead.AheadOptions)
make_edf = _factory(edf.EdfPolicy, edf.EdfOptions)
make_throughput = _factory(
    throughput.ThroughputPolicy, throughput.ThroughputOptions
)
make_hybrid = _factory(hybrid.HybridPolicy, hybrid.HybridOptions)
