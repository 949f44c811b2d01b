# SPDX-License-Identifier: Apache-2.0

"""Each tutorial does what it says, and prints what it shows."""

from __future__ import annotations

import pathlib

import pytest

from tests.functional.allinone import harness
from tests.functional.tutorials import reader
from tests.functional.tutorials import steps
from tests.harness import cases

ROOT = pathlib.Path(__file__).parents[3]
TUTORIALS = ROOT / "doc" / "source" / "tutorials"
PAGES = ("python", "accelerator", "operator", "planner")


def test_every_tutorial_is_followed() -> None:
    names = {path.stem for path in TUTORIALS.glob("*.rst")}
    assert names == {"index", *PAGES}


@pytest.mark.parametrize("name", cases.first(*PAGES))
def test_it_does_what_it_says(name: str) -> None:
    page = (TUTORIALS / f"{name}.rst").read_text()
    todo = [*steps.steps_of(page)]
    assert len(todo) > 4
    with (
        harness.short_directory() as directory,
        reader.Reader(directory) as one,
    ):
        for step in todo:
            one.follow(step)
