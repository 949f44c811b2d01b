# SPDX-License-Identifier: Apache-2.0

"""The commands of ``fpgapool-sim``, a module of the same name each.

Each has ``add_parser(subparsers)``, which sets ``run``. This function of the
parsed arguments raises :class:`fpgapool.sim.errors.InputError` for invalid
input, and may return an exit code.
"""

#: The module of each command, by name.
MODULES = {
    name: f"{__name__}.{name}" for name in ("run", "generate", "sweep", "tune")
}
