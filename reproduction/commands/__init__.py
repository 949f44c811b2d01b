# SPDX-License-Identifier: Apache-2.0

"""The commands of ``python -m reproduction``, as those of ``fpgapool-sim``.

``run`` is that of ``fpgapool-sim``; with this package come the models that it
does not have.
"""

from reproduction import models as _models  # noqa: F401

#: By name, the module of each command.
MODULES = {
    "figures": f"{__name__}.figures",
    "run": "fpgapool.sim.commands.run",
    "study-era": "reproduction.rate_aware.era",
    "tune-era": f"{__name__}.tune_era",
    "validate": f"{__name__}.validate",
}
