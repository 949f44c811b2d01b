# SPDX-License-Identifier: Apache-2.0

"""Runs the groups of a scenario with the pool's own rules for their sizes.

At one instant tasks end, then programmed slots join, then batches arrive, and
then the policy resizes. A slot that changes its group is programmed for the
cluster's ``reconfiguration_s``; slots that groups have at the start are
programmed already.
"""

from __future__ import annotations

import importlib.metadata
import math

from fpgapool.core import elasticity
from fpgapool.core import events
from fpgapool.core import goals
from fpgapool.core import groups as core_groups
from fpgapool.sim import arrivals
from fpgapool.sim import errors
from fpgapool.sim import group_results
from fpgapool.sim import scenario as scenarios
from fpgapool.sim.engines import base
from fpgapool.sim.engines import queues

# A run in which nothing happens for this many periods never ends.
_MOST_IDLE_PERIODS = 1000
_HOST = 0


def policy_names() -> list[str]:
    """Return the names of the installed elasticity policies."""
    return sorted(_policies())


def _policies() -> dict[str, importlib.metadata.EntryPoint]:
    group = importlib.metadata.entry_points(group="fpgapool.elasticity")
    return {entry.name: entry for entry in group}
