#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""A tiny run of a benchmark, for the tests."""

from __future__ import annotations

import json
import math
import pathlib

import pytest

from tests.benchmarks import __main__ as command

_PNG = b"\x89PNG\r\n"


def names(*, services: bool) -> list[str]:
    """Return the names of benchmarks.

    :param services: those that start processes, or those that do not.
    """
    return [
        name
        for name, module in command.find().items()
        if getattr(module, "SERVICES", False) == services
    ]


def check(
    name: str,
    directory: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Run a benchmark and look at what it makes, but at no times."""
    command.main([name, "--tiny", "--repetitions=2", f"--out={directory}"])
    module = command.find()[name]
    may_be_zero = getattr(module, "DIFFERENCES", False)
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
    shown = capsys.readouterr().out
    assert module.TITLE in shown
    assert (directory / f"{name}.png").read_bytes().startswith(_PNG)
