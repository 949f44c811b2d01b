# SPDX-License-Identifier: Apache-2.0

"""What somebody gets who installs the commands only, from the index."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from tests.harness import distributions

# In the gate: tests/unit/client/test_not_installed.py,
# tests/unit/test_imports.py and test_wheel.py.
pytestmark = pytest.mark.long

#: What services need, or cores, and nobody else.
HEAVY = {
    "alembic",
    "dtaidistance",
    "falcon",
    "kombu",
    "matplotlib",
    "numpy",
    "oslo.db",
    "oslo.messaging",
    "pyeclib",
    "pyroute2",
    "scipy",
    "sqlalchemy",
}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Give the interpreter of an environment with ``fpgapool[cli]``."""
    where = tmp_path_factory.mktemp("light")
    sources = where / "sources"
    sources.mkdir()
    distributions.copy_sources(sources)
    wheel = distributions.build_wheel(sources, where)
    subprocess.run([sys.executable, "-m", "venv", where / "venv"], check=True)
    found = where / "venv" / "bin" / "python"
    subprocess.run(
        [
            found,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--quiet",
            "--no-compile",
            f"{wheel}[cli]",
        ],
        check=True,
    )
    return found


def _output(*command: object) -> str:
    return subprocess.run(
        [str(word) for word in command],
        cwd="/",
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def test_nothing_heavy_comes_with_the_commands(python: pathlib.Path) -> None:
    listed = _output(python, "-m", "pip", "list", "--format=freeze")
    names = {line.partition("==")[0].lower() for line in listed.split()}
    assert "fpgapool" in names
    assert names.isdisjoint(HEAVY)


def test_the_library_and_the_commands_work(python: pathlib.Path) -> None:
    _output(python, "-c", "import fpgapool.client")
    text = _output(python.with_name("openstack"), "fpga", "--help")
    assert "fpga session create" in text
    assert "--os-cloud" in _output(python.with_name("fpgapool-run"), "--help")


def test_what_is_not_there_says_so(python: pathlib.Path) -> None:
    for name in ("agent", "conductor", "manage", "sim", "allinone"):
        result = subprocess.run(
            [python.with_name(f"fpgapool-{name}"), "--help"],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 1
        (line,) = result.stderr.splitlines()
        assert "pip install 'fpgapool[" in line


def test_the_cpu_cannot_do_it_without_the_cores(
    python: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"abc")
    result = subprocess.run(
        [
            python.with_name("fpgapool-run"),
            "fft",
            f"--in={data}",
            f"--out={tmp_path}/out",
            f"--socket={tmp_path}/nobody",
            "--timeout=5",
            "--fallback=cpu",
        ],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert "CORE_UNAVAILABLE" in result.stderr
    assert "pip install 'fpgapool[emulator]'" in result.stderr
    assert not (tmp_path / "out").exists()
