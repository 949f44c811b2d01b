# SPDX-License-Identifier: Apache-2.0

"""Many runs, and what is concluded from them.

``sweeps`` are all combinations of parameters; ``crews`` runs them in processes
or on a Dask cluster, and ``journals`` keeps their results. ``fitting`` finds
the distribution of given sizes, ``queueing`` the best thresholds for it by a
formula, and ``tuning`` confirms them by simulations.
"""
