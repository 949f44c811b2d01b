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

"""What is shipped: the wheel, its entry points and its requirements."""

import ast
import configparser
import importlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib import metadata

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PACKAGES = ("fpgapool", "fpgapool_nova_filters")
BUILD_FILES = (
    "LICENSE",
    "README.md",
    "pyproject.toml",
    "requirements.txt",
    "setup.cfg",
    "setup.py",
)
VERSION = "1.2.3"


def _pyproject() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def _copy_sources(target: pathlib.Path) -> None:
    for name in BUILD_FILES:
        shutil.copy(ROOT / name, target)
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package,
            target / package,
            # Hidden: caches of tools that someone ran in there.
            ignore=shutil.ignore_patterns("__pycache__", ".*"),
        )


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Give a copy of the sources, so that the checkout stays clean."""
    target = tmp_path_factory.mktemp("sources")
    _copy_sources(target)
    return target


@pytest.fixture(scope="module")
def source_names(sources: pathlib.Path) -> set[str]:
    """Give the files of both packages, before a build adds its own."""
    return {
        str(path.relative_to(sources))
        for package in PACKAGES
        for path in (sources / package).rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def wheel(
    sources: pathlib.Path,
    source_names: set[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[zipfile.ZipFile]:
    """Give the wheel that is built from the sources."""
    output = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "build",
            "--wheel",
            "--no-isolation",
            f"--outdir={output}",
            str(sources),
        ],
        env={**os.environ, "PBR_VERSION": VERSION},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (path,) = output.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_wheel_holds_both_packages_with_all_their_files(
    wheel: zipfile.ZipFile, source_names: set[str]
) -> None:
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert shipped == source_names
    assert "fpgapool/py.typed" in shipped
    assert "fpgapool_nova_filters/__init__.py" in shipped
    assert any(name.endswith(".yaml") for name in shipped)
    assert any("/migrations/versions/" in name for name in shipped)


def test_wheel_carries_version_and_licence(wheel: zipfile.ZipFile) -> None:
    directory = f"fpgapool-{VERSION}.dist-info"
    text = wheel.read(f"{directory}/METADATA").decode()
    assert f"\nVersion: {VERSION}\n" in text
    assert "\nLicense-Expression: Apache-2.0\n" in text
    assert "\nRequires-Python: >=3.11\n" in text
    assert f"{directory}/licenses/LICENSE" in wheel.namelist()


def _entry_points(text: str) -> list[metadata.EntryPoint]:
    parser = configparser.ConfigParser(delimiters="=")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return [
        metadata.EntryPoint(name, value, group)
        for group in parser.sections()
        for name, value in parser.items(group)
    ]


def _declared_entry_points() -> list[metadata.EntryPoint]:
    project = _pyproject()["project"]
    groups = {
        "console_scripts": project["scripts"],
        **project["entry-points"],
    }
    return [
        metadata.EntryPoint(name, value, group)
        for group, items in groups.items()
        for name, value in items.items()
    ]


def test_wheel_declares_every_entry_point(wheel: zipfile.ZipFile) -> None:
    name = f"fpgapool-{VERSION}.dist-info/entry_points.txt"
    shipped = _entry_points(wheel.read(name).decode())
    assert set(shipped) == set(_declared_entry_points())


@pytest.mark.parametrize(
    "entry_point",
    _declared_entry_points(),
    ids=lambda entry_point: f"{entry_point.group}:{entry_point.name}",
)
def test_entry_point_loads(
    entry_point: metadata.EntryPoint, wheel: zipfile.ZipFile
) -> None:
    path = entry_point.module.replace(".", "/")
    names = set(wheel.namelist())
    assert names & {f"{path}.py", f"{path}/__init__.py"}
    loaded = entry_point.load()
    # A plugin of the openstack command is a module.
    assert callable(loaded) or not entry_point.attr


def test_installed_entry_points_are_the_declared_ones() -> None:
    installed = metadata.distribution("fpgapool").entry_points
    assert {(e.group, e.name, e.value) for e in installed} == {
        (e.group, e.name, e.value) for e in _declared_entry_points()
    }


def _normalised(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name.group()).lower()


def _required() -> set[str]:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    return {_normalised(line) for line in lines if line and line[0] != "#"}


def _optional() -> set[str]:
    extras = _pyproject()["project"]["optional-dependencies"]
    return {_normalised(item) for items in extras.values() for item in items}


def _imported_roots() -> set[str]:
    roots: set[str] = set()
    for path in (ROOT / "fpgapool").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                roots.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                roots.add((node.module or "").split(".")[0])
    return roots - sys.stdlib_module_names - {"fpgapool"}


def _imported_distributions() -> set[str]:
    known = metadata.packages_distributions()
    return {
        _normalised(distribution)
        for root in _imported_roots()
        for distribution in known.get(root, [f"missing-{root}"])
    }


def test_what_is_imported_is_required() -> None:
    assert _imported_distributions() - _required() - _optional() == set()


def test_what_is_required_is_imported() -> None:
    # pbr builds the package.
    assert _required() - _imported_distributions() == {"pbr"}


def test_version_is_the_installed_one() -> None:
    version = importlib.import_module("fpgapool.version")
    assert version.version_string() == metadata.version("fpgapool")
