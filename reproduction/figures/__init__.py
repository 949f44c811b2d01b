# SPDX-License-Identifier: Apache-2.0

"""The papers' figures, drawn from simulations."""

from __future__ import annotations

import functools
import pathlib
import typing

from reproduction.figures import blaze5
from reproduction.figures import blaze8
from reproduction.figures import blaze9
from reproduction.figures import blaze11
from reproduction.figures import experiments
from reproduction.figures import figure5
from reproduction.figures import figure7
from reproduction.figures import figure8
from reproduction.figures import figure9
from reproduction.figures import figure10
from reproduction.figures import figure11
from reproduction.figures import figure12
from reproduction.figures import goals3
from reproduction.figures import goals6
from reproduction.figures import groups5
from reproduction.figures import groups7
from reproduction.figures import headline
from reproduction.figures import hjf7
from reproduction.figures import hjf13
from reproduction.figures import hjf_table7
from reproduction.figures import maps
from reproduction.figures import mixes
from reproduction.figures import table6


class Make(typing.Protocol):
    """Draws one figure."""

    def __call__(
        self, out_dir: pathlib.Path, measure: experiments.Measure, /
    ) -> str:
        """Write a CSV file and one or more PNG files.

        :param out_dir: an existing directory.
        :param measure: does the simulations.
        :returns: a sentence: which claims of the paper hold at these
            settings, and which do not.
        :raises OSError: if the picture cannot be written.
        :raises fpgapool.sim.errors.InputError: if the numbers cannot.
        """


#: By number or name, in the order in which they are made.
FIGURES: dict[str, Make] = {
    "5": figure5.make,
    "7": figure7.make,
    "8": figure8.make,
    "9": figure9.make,
    "10": figure10.make,
    "11": figure11.make,
    "12": figure12.make,
    "13": functools.partial(maps.make, maps.FIGURE13),
    "14": functools.partial(maps.make, maps.FIGURE14),
    "table6": table6.make,
    "jobs-per-host": headline.make_jobs_per_host,
    "steady-loads": headline.make_steady_loads,
    "groups5": groups5.make_figure5,
    "groups6": groups5.make_figure6,
    "groups7": groups7.make,
    "goals3": goals3.make,
    "goals6": goals6.make,
    "goals-mixes": mixes.make,
    "hjf7": hjf7.make_coarse,
    "hjf9": hjf7.make_fine,
    "hjf11": hjf7.make_opt,
    "hjf13": hjf13.make,
    "hjf-table7": hjf_table7.make,
    "blaze5": blaze5.make,
    "blaze8": blaze8.make,
    "blaze9": blaze9.make,
    "blaze11": blaze11.make,
}
