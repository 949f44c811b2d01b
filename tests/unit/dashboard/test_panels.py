# SPDX-License-Identifier: Apache-2.0

"""The panels' files and words agree with Horizon's rules and the pool's."""

from __future__ import annotations

import ast
import pathlib
import re

import yaml

from fpgapool import policies
from fpgapool.vocabulary import accounting
from fpgapool.vocabulary import states
from tests.unit import tree

PACKAGE = tree.ROOT / "fpgapool_dashboard"
CONTENT = PACKAGE / "content"
POLICIES = PACKAGE / "conf" / "default_policies" / "fpgapool.yaml"
#: Names of policies, as the panels ask for them.
ASKED = re.compile(r'\(\("fpgapool", "([a-z:_]+)"\),\)')


def _assigned(path: pathlib.Path) -> dict[str, ast.expr]:
    """Return the values that a module gives names, by these."""
    return {
        target.id: node.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _constant(value: ast.expr) -> str:
    assert isinstance(value, ast.Constant)
    return str(value.value)


def test_every_panel_is_enabled_and_there() -> None:
    enabled = set()
    for path in sorted((PACKAGE / "enabled").glob("_*_panel.py")):
        names = _assigned(path)
        slug, panel = _constant(names["PANEL"]), _constant(names["ADD_PANEL"])
        dashboard = _constant(names["PANEL_DASHBOARD"])
        module, _, name = panel.rpartition(".")
        source = tree.ROOT / f"{module.replace('.', '/')}.py"
        assert f"class {name}(horizon.Panel)" in source.read_text()
        assert _constant(_assigned(source)["slug"]) == slug
        assert path.name.endswith(f"_{dashboard}_{slug}_panel.py")
        enabled.add(source)
    assert enabled == set(CONTENT.glob("*/panel.py"))


def test_policies_are_those_of_the_pool() -> None:
    """If they are not: change conf/default_policies/fpgapool.yaml."""
    rules = {one.name: one for one in policies.list_rules()}
    given = {one["name"]: one for one in yaml.safe_load(POLICIES.read_text())}
    assert given == {
        name: {
            "name": name,
            "check_str": rules[name].check_str,
            "description": " ".join(rules[name].description.split()),
            "scope_types": rules[name].scope_types,
        }
        for name in given
    }


def test_policies_are_all_that_panels_ask_for() -> None:
    given = {
        one["name"]: one["check_str"]
        for one in yaml.safe_load(POLICIES.read_text())
    }
    asked = {
        name
        for path in CONTENT.rglob("*.py")
        for name in ASKED.findall(path.read_text())
    }
    assert {name for name in given if name.startswith("fpgapool:")} == asked
    named = re.findall(r"rule:(\w+)", " ".join(given.values()))
    assert set(named) == set(given) - asked


def test_every_limit_has_words() -> None:
    resources = _assigned(CONTENT / "pool" / "tables.py")["RESOURCES"]
    assert isinstance(resources, ast.Dict)
    names = [_constant(one) for one in resources.keys if one is not None]
    assert names == list(accounting.QUOTAS)


def test_every_state_has_words() -> None:
    source = (CONTENT / "sessions" / "tables.py").read_text()
    named = re.findall(r"\(states\.(\w+), pgettext_lazy", source)
    assert {getattr(states, name) for name in named} == states.ALL


def test_templates_mark_nothing_as_safe() -> None:
    """What tenants have written is escaped."""
    for path in PACKAGE.rglob("*"):
        if path.suffix in (".html", ".py"):
            text = path.read_text()
            assert not re.search(r"\|\s*safe|mark_safe|autoescape", text), path
