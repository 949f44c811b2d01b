# SPDX-License-Identifier: Apache-2.0

"""Builds the package.

With ``FPGAPOOL_COMPILE=1`` in the environment mypyc makes C of the modules
that each decision, or each step of a simulation, runs through. That takes a
compiler of C, Python's headers and half a minute.
"""

import os
import sys

import setuptools

#: What is compiled. All else stays Python: what decisions and simulations
#: seldom or never run through; what numba compiles; events, instructions and
#: the model, as mypyc does not know the decorators of their classes; and what
#: plug-ins inherit from.
NATIVE = (
    "fpgapool/core/ordered.py",
    "fpgapool/core/passes.py",
    "fpgapool/core/queues/ageing.py",
    "fpgapool/core/queues/applications.py",
    "fpgapool/core/queues/lanes.py",
    "fpgapool/core/queues/limits.py",
    "fpgapool/core/queues/queued.py",
    "fpgapool/core/queues/share_tree.py",
    "fpgapool/core/queues/sharing.py",
    "fpgapool/core/queues/times.py",
    "fpgapool/core/queues/users.py",
    "fpgapool/core/queues/waiting.py",
    "fpgapool/core/rules/admission.py",
    "fpgapool/core/rules/holders.py",
    "fpgapool/core/state.py",
    "fpgapool/core/topology/boards.py",
    "fpgapool/core/topology/idle_slots.py",
    "fpgapool/core/topology/loads.py",
    "fpgapool/core/topology/slot_table.py",
    "fpgapool/core/topology/slots.py",
    "fpgapool/core/view.py",
    "fpgapool/sim/simulation.py",
    "fpgapool/strategies/joint/candidates.py",
    "fpgapool/strategies/joint/pairs.py",
    "fpgapool/strategies/placements/offers.py",
    "fpgapool/strategies/rounds.py",
)
# Where mypy and mypyc leave their files.
_DIRECTORY = "build"


def _extensions() -> list[setuptools.Extension]:
    from mypyc import build

    # The same code whatever else is installed and set.
    options = (
        "--config-file=",
        f"--cache-dir={_DIRECTORY}/mypy",
        "--ignore-missing-imports",
        "--follow-imports=silent",
    )
    return build.mypycify(
        [*options, *NATIVE], opt_level="3", target_dir=_DIRECTORY
    )


def main() -> None:
    """Build as setuptools is told."""
    compiles = os.environ.get("FPGAPOOL_COMPILE") == "1"
    needed = ["pbr>=7.0.2", *(["mypy>=2.4,<2.5"] if compiles else [])]
    # While setuptools is only asked what is needed, mypy is not there yet.
    asked = "egg_info" in sys.argv
    setuptools.setup(
        setup_requires=needed,
        ext_modules=_extensions() if compiles and not asked else [],
        pbr=True,
    )


if __name__ == "__main__":
    main()
