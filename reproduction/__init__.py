# SPDX-License-Identifier: Apache-2.0

"""Reproduces papers, and validates the simulator; it is not installed.

``figures`` draws the papers' figures and says which claims hold. ``models``
adds what papers model to the simulator: hosts with cores, and containers.
``rate_aware`` is the study of the strategy era, and tunes it. ``validation``
runs the same jobs in a real pool and in the simulator. ``commands`` has the
command lines of ``python -m reproduction``. The product never imports it.
"""
