# SPDX-License-Identifier: Apache-2.0

"""What operators are told to write into nova.conf is what tests run with."""

from __future__ import annotations

import pathlib

from tests.harness import placement
from tests.services import nova

DOCUMENT = (
    pathlib.Path(__file__).parents[2]
    / "doc"
    / "source"
    / "install"
    / "nova.rst"
)


def test_document_has_the_options_of_the_scheduler() -> None:
    told = [
        line.strip()
        for line in DOCUMENT.read_text().splitlines()
        if line.startswith("    ")
    ]
    for name, value in nova.FILTER_SCHEDULER.items():
        values = value if isinstance(value, tuple) else (value,)
        lines = [line for line in told if line.startswith(f"{name} = ")]
        assert lines == [f"{name} = {each}" for each in values]


def test_document_has_the_flavors_that_placement_understands() -> None:
    text = DOCUMENT.read_text()
    flavors = placement.NEAR | placement.RESERVED | placement.RESERVED_NEAR
    for name, value in flavors.items():
        assert f"--property {name}={value}" in text
