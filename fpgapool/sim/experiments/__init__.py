# SPDX-License-Identifier: Apache-2.0

"""Many runs, and the conclusions from them.

``sweeps`` covers all combinations of parameters; ``crews`` runs them in
processes or on a Dask cluster, and ``journals`` keeps their results.
``fitting`` finds the distribution of given sizes, ``queueing`` computes the
best thresholds for it, and ``tuning`` confirms them by simulation.
``advising`` replays what a pool has recorded under every strategy.
"""
