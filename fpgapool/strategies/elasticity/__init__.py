# SPDX-License-Identifier: Apache-2.0

"""Elasticity policies by name, for the ``fpgapool.elasticity`` namespace.

Each factory takes the policy's own options by name
(:func:`fpgapool.strategies.options.own`). It raises ValueError for unknown
options and for values out of their range.
"""

from fpgapool.core.sizing import elasticity
from fpgapool.strategies import options as opts
from fpgapool.strategies.elasticity import ahead as ahead_policy
from fpgapool.strategies.elasticity import edf as edf_policy
from fpgapool.strategies.elasticity import hybrid as hybrid_policy
from fpgapool.strategies.elasticity import nnls as nnls_policy
from fpgapool.strategies.elasticity import none as none_policy
from fpgapool.strategies.elasticity import throughput as throughput_policy


def make_none(options: opts.Options) -> elasticity.Policy:
    """Each group keeps its size."""
    opts.check_names(options, shared=())
    return none_policy.NonePolicy()


def make_nnls(options: opts.Options) -> elasticity.Policy:
    """Sizes in proportion to the work that waits."""
    opts.check_names(options, shared=())
    return nnls_policy.NnlsPolicy()


def make_ahead(options: opts.Options) -> elasticity.Policy:
    """Sizes for waiting and expected work: the default."""
    return ahead_policy.AheadPolicy(
        opts.own(options, ahead_policy.AheadOptions, shared=())
    )


def make_edf(options: opts.Options) -> elasticity.Policy:
    """The earliest deadline first."""
    return edf_policy.EdfPolicy(
        opts.own(options, edf_policy.EdfOptions, shared=())
    )


def make_throughput(options: opts.Options) -> elasticity.Policy:
    """Each group gets the slots that its goal needs at its measured rate."""
    return throughput_policy.ThroughputPolicy(
        opts.own(options, throughput_policy.ThroughputOptions, shared=())
    )


def make_hybrid(options: opts.Options) -> elasticity.Policy:
    """Rates get what they need; deadlines share the rest."""
    return hybrid_policy.HybridPolicy(
        opts.own(options, hybrid_policy.HybridOptions, shared=())
    )
