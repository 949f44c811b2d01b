# SPDX-License-Identifier: Apache-2.0

"""The commands of ``fpgapool-sim``, each in a module of its name.

Each has ``add_parser(subparsers)``, which sets ``run``, a function of the
parsed arguments. ``run`` raises :class:`fpgapool.sim.errors.InputError` for
invalid input, and may return an exit code.
"""

#: The module of each command, by name.
MODULES = {
    name: f"{__name__}.{name}"
    for name in ("run", "generate", "sweep", "tune", "advise")
}
