# SPDX-License-Identifier: Apache-2.0

"""What a native build compiles; ``packaging/test_native.py`` builds one."""

import ast
import dataclasses
import importlib
import pathlib
import pkgutil
import runpy
import subprocess
import sys
import typing

import pytest
import setuptools

from fpgapool import core
from fpgapool import strategies
from fpgapool.core import what_if

ROOT = pathlib.Path(__file__).parents[2]
SETUP = str(ROOT / "setup.py")
NATIVE = runpy.run_path(SETUP)["NATIVE"]
MARK = "native.mypyc_attr(allow_interpreted_subclasses=True)"


def _must_be_marked(made: type) -> bool:
    """Protocols have no objects, and tuples are made as always."""
    return not (
        getattr(made, "_is_protocol", False) or issubclass(made, tuple)
    )


@pytest.mark.parametrize("name", NATIVE)
def test_what_is_copied_is_made_without_init_or_shared(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text())
    module = importlib.import_module(name[:-3].replace("/", "."))
    for each in tree.body:
        if not isinstance(each, ast.ClassDef):
            continue
        made = getattr(module, each.name)
        marks = [ast.unparse(mark) for mark in each.decorator_list]
        if dataclasses.is_dataclass(made):
            assert made in what_if._SHARED
        else:
            assert (MARK in marks) == _must_be_marked(made), made


@pytest.mark.parametrize("name", NATIVE)
def test_isinstance_of_what_is_compiled_is_its_own(name: str) -> None:
    modules = {one[:-3].replace("/", ".") for one in NATIVE}
    module = importlib.import_module(name[:-3].replace("/", "."))
    for made in vars(module).values():
        if isinstance(made, type) and made.__module__ == module.__name__:
            bases = {base.__module__ for base in made.__mro__}
            assert bases <= modules | {"builtins", "typing"}, made


def test_what_inherits_from_what_is_compiled_is_compiled() -> None:
    """A copy of anything else would lack the attributes that it adds."""
    modules = {one[:-3].replace("/", ".") for one in NATIVE}
    for package in (core, strategies):
        for found in pkgutil.walk_packages(
            package.__path__, f"{package.__name__}."
        ):
            module = importlib.import_module(found.name)
            for made in vars(module).values():
                if isinstance(made, type) and made.__module__ == found.name:
                    bases = {base.__module__ for base in made.__mro__}
                    assert found.name in modules or not bases & modules, made


def _asked(
    monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> dict[str, typing.Any]:
    """Run it without setuptools; what it asks of it."""
    asked: dict[str, typing.Any] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **all: asked.update(all))
    monkeypatch.setattr(sys, "argv", ["setup.py", *arguments])
    runpy.run_path(SETUP, run_name="__main__")
    return asked


def test_only_a_build_that_asks_compiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("FPGAPOOL_COMPILE", raising=False)
    asked = _asked(monkeypatch, "bdist_wheel")
    assert not asked["ext_modules"]
    assert not any("mypy" in one for one in asked["setup_requires"])


def test_mypy_comes_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FPGAPOOL_COMPILE", "1")
    monkeypatch.setitem(sys.modules, "mypyc", None)
    asked = _asked(monkeypatch, "egg_info")
    assert any("mypy" in one for one in asked["setup_requires"])
    with pytest.raises(ImportError):
        _asked(monkeypatch, "bdist_wheel")


def test_mypyc_can_compile_it(tmp_path: pathlib.Path) -> None:
    """It infers less than mypy does, which also passes what it refuses."""
    (tmp_path / "fpgapool").symlink_to(ROOT / "fpgapool")
    # Into C, which no compiler reads here. In its own process, as mypy
    # remembers much.
    result = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import runpy, sys; runpy.run_path(sys.argv[1])['_extensions']()",
            SETUP,
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    assert list((tmp_path / "build").glob("*.c"))
