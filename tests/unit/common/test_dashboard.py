# SPDX-License-Identifier: Apache-2.0

"""The dashboard for Grafana is of what is exported."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from tests.harness import dashboards
from tests.unit.common import series

PANELS = dashboards.panels()
TARGETS = [
    pytest.param(panel, target, id=f"{panel['title']}-{target['refId']}")
    for panel in PANELS
    for target in panel["targets"]
]


@pytest.mark.parametrize(("panel", "target"), TARGETS)
def test_expressions_are_about_what_is_exported(
    panel: dict[str, Any], target: dict[str, Any]
) -> None:
    expression = target["expr"]
    assert expression.count("(") == expression.count(")")
    named = re.findall(r"(fpgapool_\w+)(?:\{([^}]*)\})?", expression)
    assert named
    known: set[str] = set()
    for name, matchers in named:
        assert name in series.SERIES
        known |= series.SERIES[name]
        for label in re.findall(r"(\w+)[=!]", matchers):
            assert label in series.SERIES[name]
    used = " ".join(re.findall(r"by \(([^)]*)\)", expression))
    shown = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
    assert set(re.findall(r"\w+", used)) <= known
    assert set(shown) <= known
    # What is summed up is shown, and nothing else can be.
    kept = re.findall(r"by \(([^)]*)\)", expression)
    if "sum" in expression:
        assert set(shown) == set(re.findall(r"\w+", " ".join(kept))) - {"le"}
    counters = re.findall(r"(\w+_total|\w+_bucket)\b", expression)
    assert expression.count("rate(") == len(counters)


def test_variables_exist() -> None:
    board = dashboards.load()
    variables = {one["name"]: one for one in board["templating"]["list"]}
    text = dashboards.PATH.read_text()
    used = set(re.findall(r"\$\{?([a-z]\w*)", text))
    assert used == set(variables)
    (found,) = re.findall(
        r"label_values\((\w+), (\w+)\)", variables["host"]["query"]["query"]
    )
    assert found[1] in series.SERIES[found[0]]


def test_each_service_has_panels() -> None:
    text = " ".join(
        target["expr"] for panel in PANELS for target in panel["targets"]
    )
    for service in series.SERVICES:
        assert f"fpgapool_{service}_" in text


def test_panels_are_apart() -> None:
    panels = dashboards.load()["panels"]
    assert len({one["id"] for one in panels}) == len(panels) > 30
    titles = [one["title"] for one in PANELS]
    assert len(set(titles)) == len(titles)
    for panel in PANELS:
        letters = [one["refId"] for one in panel["targets"]]
        assert len(set(letters)) == len(letters)
    for one, other in itertools.combinations(panels, 2):
        a, b = one["gridPos"], other["gridPos"]
        assert a["x"] + a["w"] <= 24
        assert (
            a["x"] + a["w"] <= b["x"]
            or b["x"] + b["w"] <= a["x"]
            or a["y"] + a["h"] <= b["y"]
            or b["y"] + b["h"] <= a["y"]
        )
