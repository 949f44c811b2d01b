# SPDX-License-Identifier: Apache-2.0

"""The commands of ``fpgapool-sim``, a module of the same name each.

Each has ``add_parser(subparsers)``, which sets ``run``. This function of the
parsed arguments raises :class:`fpgapool.sim.errors.InputError` for invalid
input, and may return an exit code.
"""

import importlib
import types

NAMES = ("run", "generate", "sweep", "tune", "tune-era", "figures", "validate")


def module(name: str) -> types.ModuleType:
    """Import a command; the others' libraries take longer than small runs."""
    return importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
