# SPDX-License-Identifier: Apache-2.0

"""The wheel, installed with nothing but itself."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import sysconfig
import tomllib

import pytest

from tests.harness import cases
from tests.harness import distributions


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Give an environment with the wheel; its libraries are those of here."""
    sources = tmp_path_factory.mktemp("sources")
    distributions.copy_sources(sources)
    wheel = distributions.build_wheel(
        sources, tmp_path_factory.mktemp("wheel")
    )
    made = tmp_path_factory.mktemp("installed")
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", made], check=True
    )
    python = made / "bin" / "python"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check"),
            *("--python", python, "install", "--quiet", "--no-deps"),
            *("--no-index", "--no-compile", wheel),
        ],
        check=True,
    )
    directory = subprocess.run(
        [python, "-c", "import sysconfig as s; print(s.get_path('purelib'))"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.strip()
    # A plain path: what makes the checkout importable is not followed.
    libraries = pathlib.Path(directory) / "libraries.pth"
    libraries.write_text(sysconfig.get_path("purelib") + "\n")
    return made


def _scripts() -> list[str]:
    text = (distributions.ROOT / "pyproject.toml").read_text()
    return sorted(tomllib.loads(text)["project"]["scripts"])


def _run(prefix: pathlib.Path, name: str, *arguments: str) -> str:
    result = subprocess.run(
        [prefix / "bin" / name, *arguments],
        cwd="/",
        # Nothing but the wheel, wherever the tests themselves are.
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("name", cases.some(_scripts(), "fpgapool-run".__eq__))
def test_commands_answer(prefix: pathlib.Path, name: str) -> None:
    assert f"usage: {name}" in _run(prefix, name, "--help")


@pytest.mark.long
def test_the_package_is_that_of_the_wheel(prefix: pathlib.Path) -> None:
    where = _run(
        *(prefix, "python", "-c", "import fpgapool; print(fpgapool.__file__)")
    )
    assert where.startswith(str(prefix))
    version = _run(prefix, "fpgapool-agent", "--version")
    assert distributions.VERSION in version


def test_tables_are_made_with_its_migrations(
    prefix: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    conf = tmp_path / "fpgapool.conf"
    conf.write_text(
        f"[database]\nconnection = sqlite:///{tmp_path}/fpgapool.sqlite\n"
    )
    manage = ("fpgapool-manage", "--config-file", str(conf), "db")
    _run(prefix, *manage, "sync")
    newest = max(
        (distributions.ROOT / "fpgapool/db/migrations").rglob("0*.py")
    )
    assert newest.name[:3] in _run(prefix, *manage, "version")


def test_what_operators_copy_is_there(prefix: pathlib.Path) -> None:
    shipped = prefix / "share" / "fpgapool"
    for path in (distributions.ROOT / "etc").rglob("*"):
        if path.is_file():
            name = path.relative_to(distributions.ROOT)
            assert (shipped / name).read_bytes() == path.read_bytes()
