# SPDX-License-Identifier: Apache-2.0

"""The commands of ``fpgapool-sim``, a module each.

Each has ``add_parser(subparsers)``, which sets ``run``. This function of the
parsed arguments raises :class:`fpgapool.sim.errors.InputError` for invalid
input, and may return an exit code.
"""

from fpgapool.sim.commands import figures
from fpgapool.sim.commands import generate
from fpgapool.sim.commands import run
from fpgapool.sim.commands import sweep
from fpgapool.sim.commands import tune
from fpgapool.sim.commands import tune_era
from fpgapool.sim.commands import validate

COMMANDS = (run, generate, sweep, tune, tune_era, figures, validate)
