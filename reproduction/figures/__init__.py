# SPDX-License-Identifier: Apache-2.0

"""The papers' figures, drawn from simulations: rows of one table.

``figure`` says what a row is, and makes it; ``charts`` draws. A paper's
modules have its rows: ``curves``, ``pairs``, ``thresholds`` and ``table6``
those on FPGAPooling, whose runs are in ``clusters``; ``groups`` those on FPGA
groups, with ``group_loads``; ``goals`` and ``mixes`` those on goals, with
``goal_runs``; ``hjf`` those on HJF, with ``bags``; ``blaze5``, ``blaze8``,
``blaze9`` and ``blaze11`` those on Blaze. ``real_traces`` has one that no
paper has: strategies on recorded demand.
"""

from reproduction.figures import blaze5
from reproduction.figures import blaze8
from reproduction.figures import blaze9
from reproduction.figures import blaze11
from reproduction.figures import curves
from reproduction.figures import figure
from reproduction.figures import goals
from reproduction.figures import groups
from reproduction.figures import hjf
from reproduction.figures import mixes
from reproduction.figures import pairs
from reproduction.figures import real_traces
from reproduction.figures import table6
from reproduction.figures import thresholds

_MODULES = (
    *(thresholds, pairs, curves, table6, groups, goals, mixes, hjf),
    *(blaze5, blaze8, blaze9, blaze11, real_traces),
)
#: By number or name; first those with a number, in its order.
FIGURES: dict[str, figure.Figure] = {
    each.name: each
    for each in sorted(
        (row for module in _MODULES for row in module.FIGURES),
        key=lambda row: int(row.name) if row.name.isdecimal() else 99,
    )
}
