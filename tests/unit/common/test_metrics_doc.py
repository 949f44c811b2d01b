# SPDX-License-Identifier: Apache-2.0

"""The tables of metrics and the example alerts are of what is exported."""

import pathlib
import re

import pytest
import yaml

from fpgapool.common.monitoring import metrics
from tests.unit.common import series

ROOT = pathlib.Path(__file__).parents[3]
DOCUMENT = ROOT / "doc" / "source" / "admin" / "metrics.rst"
ALERTS = ROOT / "etc" / "prometheus" / "fpgapool-alerts.yaml"

#: Of every series, by Prometheus itself.
SCRAPED = {"instance", "job"}


def _documented() -> list[tuple[str, ...]]:
    rows = []
    for table in DOCUMENT.read_text().split(".. list-table::")[1:]:
        body = re.split(r"(?m)^\S", table.partition("\n")[2])[0]
        for row in body.split("   * - ")[2:]:
            rows.append(tuple(" ".join(c.split()) for c in row.split(" - ")))
    return rows


def test_the_tables_are_what_is_exported() -> None:
    assert _documented() == [
        (
            f"``{one.name}``",
            one.kind,
            ", ".join(f"``{label}``" for label in one.labels) or "none",
            one.help,
        )
        for one in series.DEFINITIONS
    ]


@pytest.mark.parametrize("one", series.DEFINITIONS, ids=lambda one: one.name)
def test_names_and_texts(one: metrics.Definition) -> None:
    assert re.fullmatch(r"fpgapool_[a-z]+(_[a-z]+)+", one.name)
    for unit in ("_ms", "_kb", "_mb", "_time", "_size"):
        assert unit not in one.name
    if one.kind == metrics.HISTOGRAM:
        assert one.name.endswith(("_seconds", "_inputs"))
    assert (
        one.help[0].isupper()
        or one.help.startswith("1 if ")
        or (one.help.startswith("1 while "))
    )
    assert one.help[-1] == "."


@pytest.mark.parametrize("service", series.SERVICES)
def test_names_say_the_service(service) -> None:
    names = [one.name for one in series.SERVICES[service]]
    assert len(set(names)) == len(names)
    assert all(name.startswith(f"fpgapool_{service}_") for name in names)


def _alerts() -> list[dict]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.mark.parametrize("rule", _alerts(), ids=lambda rule: rule["alert"])
def test_alerts_are_about_what_is_exported(rule) -> None:
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in ("warning", "critical")
    expression = rule["expr"]
    assert expression.count("(") == expression.count(")")
    named = re.findall(r"(fpgapool_\w+)(?:\{([^}]*)\})?", expression)
    assert named
    known = set(SCRAPED)
    for name, matchers in named:
        assert name in series.SERIES
        known |= series.SERIES[name]
        assert set(re.findall(r"(\w+)[=!]", matchers)) <= series.SERIES[name]
    grouped = re.findall(r"(?:by|on) \(([^)]*)\)", expression)
    used = re.findall(r"labels\.(\w+)", rule["annotations"]["summary"])
    for label in [*re.findall(r"\w+", " ".join(grouped)), *used]:
        assert label in known


def test_alerts_have_names_of_their_own() -> None:
    names = [rule["alert"] for rule in _alerts()]
    assert len(set(names)) == len(names) > 10
