# SPDX-License-Identifier: Apache-2.0

"""The paper's figures again, a module each.

Each has ``make(out_dir, measure)``, which has simulations done by ``measure``,
writes a PNG and a CSV file into a directory that exists, and returns one
sentence: whether what the paper claims holds at these settings, and where not.
"""

from __future__ import annotations

import pathlib
import typing

from fpgapool.sim.figures import experiments
from fpgapool.sim.figures import figure5
from fpgapool.sim.figures import figure7
from fpgapool.sim.figures import figure8
from fpgapool.sim.figures import figure9
from fpgapool.sim.figures import figure10
from fpgapool.sim.figures import figure11
from fpgapool.sim.figures import figure12
from fpgapool.sim.figures import figure13
from fpgapool.sim.figures import figure14
from fpgapool.sim.figures import table6


class Figure(typing.Protocol):
    """One of the modules."""

    def make(
        self, out_dir: pathlib.Path, measure: experiments.Measure, /
    ) -> str:
        """Write the files.

        :param out_dir: where.
        :param measure: does the simulations.
        :returns: the sentence.
        :raises OSError: if the picture cannot be written.
        :raises fpgapool.sim.errors.InputError: if the numbers cannot.
        """


#: By number or name, in the order in which they are made.
FIGURES: dict[str, Figure] = {
    "5": figure5,
    "7": figure7,
    "8": figure8,
    "9": figure9,
    "10": figure10,
    "11": figure11,
    "12": figure12,
    "13": figure13,
    "14": figure14,
    "table6": table6,
}
