# SPDX-License-Identifier: Apache-2.0

"""The elasticity policy of the documentation."""

from __future__ import annotations

import importlib
import pathlib
import tomllib

import pytest

from fpgapool.core.sizing import elasticity
from tests.unit.strategies import scaling_sets as sets

PLUGINS = pathlib.Path(__file__).parents[3] / "doc" / "examples" / "plugins"


def make(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, object]
) -> elasticity.Policy:
    """Make the policy as its entry point says."""
    project = tomllib.loads((PLUGINS / "pyproject.toml").read_text())
    entries = project["project"]["entry-points"]["fpgapool.elasticity"]
    module, _, name = entries["gentle"].partition(":")
    monkeypatch.syspath_prepend(str(PLUGINS))
    policy = getattr(importlib.import_module(module), name)(options)
    assert isinstance(policy, elasticity.Policy)
    return policy


def test_it_moves_one_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = make(monkeypatch, {})
    view = sets.make_view(
        sets.make_working(1, 2, 60.0),
        sets.make_working(2, 4, 4.0),
        sets.make_working(3, 1, 0.0),
    )
    assert policy.resize(view, 0.0) == {1: 3, 2: 3}


def test_it_leaves_sizes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    view = sets.make_view(
        sets.make_working(1, 2, 60.0), sets.make_working(2, 4, 4.0)
    )
    patient = make(monkeypatch, {"least_s": 31.0})
    assert patient.resize(view, 0.0) == {}
    minima = sets.make_view(
        sets.make_working(1, 1, 60.0), sets.make_working(2, 1, 4.0)
    )
    assert make(monkeypatch, {}).resize(minima, 0.0) == {}
    assert make(monkeypatch, {}).resize(sets.make_view(), 0.0) == {}


def test_it_refuses_other_options(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="known options: least_s"):
        make(monkeypatch, {"most_s": 1.0})
