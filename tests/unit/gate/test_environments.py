# SPDX-License-Identifier: Apache-2.0

"""What is installed for tests that have an environment of their own."""

from __future__ import annotations

import ast
import pathlib
import re
import sys
from collections.abc import Iterator
from importlib import metadata

from tests.gate import plan

ROOT = pathlib.Path(__file__).parents[3]
MAKEFILE = (ROOT / "Makefile").read_text().replace("\\\n", " ")
#: All these environments have fpgapool[allinone], and so these.
BROUGHT = {"cryptography", "fpgapool"}


def _variable(name: str) -> set[str]:
    (text,) = re.findall(rf"(?m)^{name} := (.*)$", MAKEFILE)
    return {word.strip("'") for word in text.split()}


def _imported(module: str, seen: set[str]) -> Iterator[str]:
    """Yield the packages that come with a module of the tests."""
    path = ROOT / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if module in seen or not path.exists():
        return
    seen.add(module)
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            root = name.split(".")[0]
            if root == "tests":
                yield from _imported(name, seen)
                yield from _imported(name.rpartition(".")[0], seen)
            elif root not in sys.stdlib_module_names:
                yield root


def test_environments_have_what_all_tests_import() -> None:
    known = metadata.packages_distributions()
    roots = set(_imported("tests.conftest", set()))
    assert {"hypothesis", "pymysql", "psycopg"} <= roots
    tools = {re.split(r"[\[<>=]", one)[0] for one in _variable("TEST_TOOLS")}
    assert {known[root][0] for root in roots - BROUGHT} <= tools


def test_environments_with_an_interpreter_have_these_tools() -> None:
    for _, _, python in plan.APART:
        if not python:
            continue
        venv = python.split("/")[0]
        (variable,) = re.findall(rf"(?m)^(\w+)_VENV := {venv}$", MAKEFILE)
        rule = rf"(?m)^\$\({variable}_VENV\)/.installed:.*\n((?:\t.*\n)+)"
        (recipe,) = re.findall(rule, MAKEFILE)
        words = {
            word
            for name in re.findall(r"\$\((\w+_TOOLS)\)", recipe)
            for word in {f"$({name})", *_variable(name)}
        }
        assert "$(TEST_TOOLS)" in words, venv
