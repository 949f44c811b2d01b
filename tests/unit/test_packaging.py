# SPDX-License-Identifier: Apache-2.0

"""What is shipped: the wheel, its entry points and its requirements."""

import ast
import configparser
import functools
import importlib
import pathlib
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib import metadata

import pytest
import yaml
from packaging.requirements import Requirement
from sqlalchemy import engine

from tests.harness import distributions
from tests.harness import imports
from tests.unit import tree

PACKAGES = distributions.PACKAGES
VERSION = distributions.VERSION
OLDEST_RELEASE = tree.ROOT / "tests" / "constraints" / "2026.1.txt"


# Both look at very many files.
_distributions = functools.cache(metadata.packages_distributions)
_tree = functools.cache(functools.partial(imports.Tree, tree.ROOT))


@functools.cache
def _pyproject() -> dict:
    return tomllib.loads((tree.ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Give a copy of the sources, so that the checkout stays clean."""
    target = tmp_path_factory.mktemp("sources")
    distributions.copy_sources(target)
    return target


@pytest.fixture(scope="module")
def source_names(sources: pathlib.Path) -> set[str]:
    """Give the files of all packages, before a build adds its own."""
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
    path = distributions.build_wheel(sources, tmp_path_factory.mktemp("wheel"))
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_wheel_holds_all_packages_with_all_their_files(
    wheel: zipfile.ZipFile, source_names: set[str]
) -> None:
    apart = re.compile(r"\.(dist-info|data)/")
    shipped = {name for name in wheel.namelist() if not apart.search(name)}
    assert shipped == source_names
    assert {
        "fpgapool/accelerators/profiles/aes.yaml",
        "fpgapool/api/schemas/sessions.py",
        "fpgapool/db/migrations/env.py",
        "fpgapool/drivers/opencl/kernels/aes-cbc.cl",
        "fpgapool/drivers/opencl/kernels/aes-cbc.json",
        "fpgapool/db/migrations/versions/001_tables.py",
        "fpgapool/policies.py",
        "fpgapool/py.typed",
        "fpgapool_blazar/plugin.py",
        "fpgapool_dashboard/conf/default_policies/fpgapool.yaml",
        "fpgapool_dashboard/enabled/_1720_project_fpga_sessions_panel.py",
        "fpgapool_dashboard/local_settings.d/_1710_fpgapool.py",
        "fpgapool_dashboard/templates/fpgapool_dashboard/_session.html",
        "fpgapool_heat/resources.py",
        "fpgapool_nova_filters/__init__.py",
        "fpgapool_tempest_plugin/plugin.py",
        "fpgapool_tempest_plugin/tests/scenario/test_slots.py",
    } <= shipped


def test_wheel_holds_what_operators_copy(wheel: zipfile.ZipFile) -> None:
    prefix = f"fpgapool-{VERSION}.data/data/share/fpgapool/"
    shipped = {
        name.removeprefix(prefix): wheel.read(name)
        for name in wheel.namelist()
        if ".data/" in name
    }
    assert shipped == {
        str(path.relative_to(tree.ROOT)): path.read_bytes()
        for path in (tree.ROOT / "etc").rglob("*")
        if path.is_file()
    }


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
    if entry_point.group.startswith(("blazar.", "nova.", "tempest.")):
        # Blazar, Nova or Tempest loads it, and is not installed here.
        return
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
    lines = (tree.ROOT / "requirements.txt").read_text().splitlines()
    return {_normalised(line) for line in lines if line and line[0] != "#"}


#: Files that name what is installed from PyPI, but for services of OpenStack.
REQUIREMENTS = (
    *("requirements.txt", "test-requirements.txt"),
    "doc/requirements.txt",
)


def _constraints(path: pathlib.Path) -> dict[str, str]:
    lines = path.read_text().splitlines()
    pairs = [line.split("==") for line in lines if line[0] != "#"]
    found = {_normalised(name): version for name, version in pairs}
    assert len(found) == len(pairs), "a package is named twice"
    return found


def _named() -> Iterator[Requirement]:
    for name in REQUIREMENTS:
        for line in (tree.ROOT / name).read_text().splitlines():
            if text := line.partition("#")[0].strip():
                yield Requirement(text)
    for texts in _pyproject()["project"]["optional-dependencies"].values():
        yield from map(Requirement, texts)
    # What doc/source/install/services.rst says to install for the API.
    path = tree.ROOT / "tests/services/openstack-requirements.txt"
    (text,) = re.findall(r"(?m)^pyuwsgi\S+", path.read_text())
    yield Requirement(text)


def test_constraints_have_all_that_requirements_name() -> None:
    # If they do not: make constraints
    constraints = _constraints(tree.ROOT / "constraints.txt")
    for requirement in _named():
        name = _normalised(requirement.name)
        if name != "fpgapool":
            assert name in constraints
            assert requirement.specifier.contains(constraints[name]), name


def _optional() -> set[str]:
    extras = _pyproject()["project"]["optional-dependencies"]
    return {_normalised(item) for items in extras.values() for item in items}


def _imported_roots(folder: str) -> set[str]:
    roots: set[str] = set()
    for path in (tree.ROOT / folder).rglob("*.py"):
        if imports.COPIED in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                roots.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                roots.add((node.module or "").split(".")[0])
    return roots - sys.stdlib_module_names - {"fpgapool"}


def _imported_distributions(folder: str = "fpgapool") -> set[str]:
    known = _distributions()
    named = _required() | _optional()
    imported: set[str] = set()
    for root in _imported_roots(folder):
        # Of an extra that is not installed here both names are the same.
        found = {_normalised(one) for one in known.get(root, [root])}
        # Of those that share a package, what is named brings the others.
        imported |= found & named or found
    return imported


def test_what_is_imported_is_required() -> None:
    assert _imported_distributions() - _required() - _optional() == {
        # For types only: mypyc knows its mark by that name.
        "mypy-extensions"
    }


def test_what_is_required_is_imported() -> None:
    # pbr builds the package.
    assert _required() - _imported_distributions() == {"pbr"}


def test_openstacks_oldest_release_has_what_is_required() -> None:
    constraints = _constraints(OLDEST_RELEASE)
    for requirement in _named():
        version = constraints.get(_normalised(requirement.name))
        assert version is None or version in requirement.specifier
    assert {"openstacksdk", "oslo-messaging", "pbr"} <= constraints.keys()


def test_tox_fetches_no_constraints_from_elsewhere() -> None:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(tree.ROOT / "tox.ini")
    text = parser["testenv"]["constraints"]
    _, _, default = text.rstrip("}").partition("TOX_CONSTRAINTS_FILE:")
    default = default.replace("{toxinidir", str(tree.ROOT)).replace("}", "")
    assert pathlib.Path(default) == OLDEST_RELEASE


def test_tox_has_what_zuul_runs_by_name() -> None:
    own, document = yaml.safe_load((tree.ROOT / ".zuul.yaml").read_text())
    text = (tree.ROOT / "tox.ini").read_text()
    ((name, suffixes),) = re.findall(r"(?m)^\[testenv:(\w+){(.+)}\]$", text)
    environments = {name + suffix for suffix in suffixes.split(",")}
    for pipeline in ("check", "gate"):
        jobs = document["project"][pipeline]["jobs"]
        names = [
            job if isinstance(job, str) else next(iter(job)) for job in jobs
        ]
        assert names.pop() == own["job"]["name"]
        assert names
        for job in names:
            assert job.removeprefix("openstack-tox-") in environments


def test_zuul_runs_the_plugin_of_tempest() -> None:
    job = yaml.safe_load((tree.ROOT / ".zuul.yaml").read_text())[0]["job"]
    plugins = _pyproject()["project"]["entry-points"]["tempest.test_plugins"]
    ((name, target),) = plugins.items()
    assert job["vars"]["tempest_plugins"] == [name]
    # DevStack knows a plugin by the name of its directory.
    assert list(job["vars"]["devstack_plugins"]) == [name]
    package = target.partition(".")[0]
    chosen = re.compile(job["vars"]["tempest_test_regex"])
    assert chosen.match(f"{package}.tests")
    assert not chosen.match("tempest.api")


def _extra(name: str) -> set[str]:
    """Return what an extra, or the package itself, brings by name."""
    if not name:
        return _required()
    found = _required()
    extras = _pyproject()["project"]["optional-dependencies"]
    for item in extras[name]:
        if match := re.fullmatch(r"fpgapool\[([a-z,]+)\]", item):
            for other in match.group(1).split(","):
                found |= _extra(other)
        else:
            found.add(_normalised(item))
    return found


#: What somebody starts or imports, and the extra that it needs.
NEEDED = {
    "fpgapool.client": "",
    "fpgapool.cmd.launch": "",
    "fpgapool.cmd.run": "",
    "fpgapool.version": "",
    "fpgapool.osc.plugin": "cli",
    "fpgapool.osc.v1.session": "cli",
    "fpgapool.osc.v1.device": "cli",
    "fpgapool.cmd.agent": "server",
    "fpgapool.agent.worker.service": "server",
    "fpgapool.cmd.conductor": "server",
    "fpgapool.cmd.manage": "server",
    "fpgapool.cmd.status": "server",
    "fpgapool.conf.opts": "server",
    "fpgapool.wsgi.api": "api",
    "fpgapool.drivers.emulator": "emulator",
    "fpgapool.drivers.opencl.runner": "opencl",
    "fpgapool.accelerators.aes": "emulator",
    "fpgapool.accelerators.align": "emulator",
    "fpgapool.accelerators.copy": "emulator",
    "fpgapool.accelerators.dtw": "emulator",
    "fpgapool.accelerators.ec": "emulator",
    "fpgapool.accelerators.fft": "emulator",
    "fpgapool.accelerators.gzip": "emulator",
    "fpgapool.accelerators.km": "emulator",
    "fpgapool.accelerators.lr": "emulator",
    "fpgapool.accelerators.sha": "emulator",
    "fpgapool.accelerators.sobel": "emulator",
    "fpgapool.accelerators.sw": "emulator",
    "fpgapool.cmd.allinone": "allinone",
    "fpgapool.cmd.sim": "sim",
    "fpgapool.cmd.yarn_labels": "",
    "fpgapool.ml.kmeans": "ml",
    "fpgapool.ml.logistic": "ml",
    "fpgapool.ml.neighbors": "ml",
    "fpgapool.spark": "spark",
    "fpgapool.yarn.labels": "",
}

#: A library as large as all others, for one format of results; half a
#: gigabyte that is useless without Java; what tests whole clouds; and what
#: stands beside Blazar, Horizon or Heat.
APART = {"blazar", "dashboard", "heat", "parquet", "spark", "tempest"}


@pytest.mark.parametrize("module", NEEDED)
def test_an_extra_brings_what_is_imported(module: str) -> None:
    known = _distributions()
    needed = {
        _normalised(known[root][0])
        for item in _tree().loaded_with(module)
        if (root := item.target.split(".")[0]) != "fpgapool"
        and root not in sys.stdlib_module_names
    }
    assert needed - _extra(NEEDED[module]) == set()


def test_the_api_needs_only_the_extra_client() -> None:
    imported = _imported_distributions("fpgapool/client/doors")
    assert imported <= _extra("client")
    assert _extra("client") < _extra("cli")


@pytest.mark.parametrize(
    ("extra", "url"),
    [
        ("mysql", "mysql+pymysql://"),
        ("postgresql", "postgresql+psycopg://"),
    ],
)
def test_an_extra_brings_the_driver_of_its_database(
    extra: str, url: str
) -> None:
    module = engine.make_url(url).get_dialect().import_dbapi()
    (distribution,) = _distributions()[module.__name__]
    assert _normalised(distribution) in _extra(extra)


def test_every_extra_is_among_all() -> None:
    extras = _pyproject()["project"]["optional-dependencies"]
    everything = _extra("all")
    for name in set(extras) - APART:
        assert _extra(name) <= everything, name


@pytest.mark.parametrize(
    ("name", "extra", "missing"),
    [
        ("agent", "server", "oslo_log"),
        ("allinone", "allinone", "oslo_messaging"),
        ("conductor", "server", "oslo_messaging"),
        ("manage", "server", "sqlalchemy"),
        ("sim", "sim", "msgspec"),
    ],
)
def test_a_command_without_its_extra_says_so(
    name: str, extra: str, missing: str
) -> None:
    program = (
        "import sys\n"
        f"sys.modules[{missing!r}] = None\n"
        "sys.argv[1:] = ['--help']\n"
        "from fpgapool.cmd import launch\n"
        f"sys.exit(launch.{name}())\n"
    )
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=tree.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"fpgapool-{name}: {missing}")
    assert f"pip install 'fpgapool[{extra}]'" in line


def test_version_is_the_installed_one() -> None:
    version = importlib.import_module("fpgapool.version")
    assert version.version_string() == metadata.version("fpgapool")
