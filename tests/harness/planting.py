# SPDX-License-Identifier: Apache-2.0

"""Code of tests in the processes of a pool, workers and desks included."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import typing
from collections.abc import Mapping

from fpgapool.accelerators import base as accelerators
from tests.harness import processes

WORKER = "fpgapool.agent.worker"
DESK = "fpgapool.agent.groupdesk"
#: From which both are forked.
PARENT = "fpgapool.agent.child.forkserver"


def variables(
    directory: pathlib.Path, module: str, profiles: Mapping[str, str]
) -> dict[str, str]:
    """Return an environment in which processes import a module first.

    :param module: of tests; it looks at :func:`is_process` before it changes
        anything.
    :param profiles: the cores of more accelerators, by their names.
    """
    # Late: each process of the pool imports this module.
    import yaml

    (directory / "sitecustomize.py").write_text(f"import {module}\n")
    for name, core in profiles.items():
        (directory / f"{name}.yaml").write_text(
            yaml.safe_dump(
                {
                    "name": name,
                    "description": "of tests",
                    "peak_bytes_per_s": 1e9,
                    "return_ratio": 1,
                    "stateless": True,
                    "shapes": [],
                    "params_schema": {"type": "object"},
                    "core": core,
                    "chunk_multiple_bytes": 1,
                }
            )
        )
    paths = (str(directory), str(processes.ROOT))
    return {
        "PYTHONPATH": os.pathsep.join(paths),
        accelerators.DIRECTORY_VARIABLE: str(directory),
    }


def is_process(module: str) -> bool:
    """Whether this process was started to run a module."""
    return module in sys.orig_argv


def settings() -> dict[str, typing.Any]:
    """Return the settings of this worker or desk."""
    document: dict[str, typing.Any] = json.loads(sys.orig_argv[-1])
    return document
