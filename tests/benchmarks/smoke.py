# SPDX-License-Identifier: Apache-2.0

"""A tiny run of a benchmark, for the tests."""

from __future__ import annotations

import json
import math
import pathlib
import subprocess
import sys
from collections.abc import Iterable

from tests import benchmarks
from tests.benchmarks import __main__ as command

_PNG = b"\x89PNG\r\n"
_LIMIT_S = 480


def names(*, services: bool) -> list[str]:
    """Return the names of benchmarks.

    :param services: those that start processes, or those that do not.
    """
    return [
        name
        for name, module in command.find().items()
        if getattr(module, "SERVICES", False) == services
    ]


def _may_be_zero(name: str) -> bool:
    return getattr(command.find()[name], "DIFFERENCES", False)


def alike(names: Iterable[str]) -> list[list[str]]:
    """Part those whose figures may be zero from the others."""
    parts: dict[bool, list[str]] = {}
    for name in names:
        parts.setdefault(_may_be_zero(name), []).append(name)
    return list(parts.values())


def options(directory: pathlib.Path, *names: str) -> list[str]:
    """Return the command line of a tiny run."""
    return [*names, "--tiny", "--repetitions=2", f"--out={directory}"]


def run(directory: pathlib.Path, *names: str) -> str:
    """Run benchmarks in a process of their own, as people do."""
    done = subprocess.run(
        [
            sys.executable,
            *("-m", benchmarks.__name__),
            *options(directory, *names),
        ],
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def check(name: str, directory: pathlib.Path, shown: str) -> None:
    """Look at what a benchmark has made, but at no times."""
    module = command.find()[name]
    may_be_zero = _may_be_zero(name)
    document = json.loads((directory / "results.json").read_text())
    assert document["format"] == "fpgapool-benchmarks/1"
    found = [row["name"] for row in document["rows"]]
    assert found
    assert len(set(found)) == len(found)
    for row in document["rows"]:
        assert row["unit"]
        for sample in [*row["samples"], *row["floor_samples"]]:
            assert math.isfinite(sample["value"])
            assert sample["value"] > 0 or may_be_zero
            assert sample["wall_s"] > 0
        values = [sample["value"] for sample in row["samples"]]
        assert min(values) <= row["median"] <= max(values)
    assert module.TITLE in shown
    assert (directory / f"{name}.png").read_bytes().startswith(_PNG)
