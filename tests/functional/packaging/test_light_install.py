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
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    where = tmp_path_factory.mktemp("light")
    sources = where / "sources"
    sources.mkdir()
    distributions.copy_sources(sources)
    return distributions.build_wheel(sources, where)


def _install(wheel: pathlib.Path, extra: str) -> pathlib.Path:
    """Return the interpreter of a new environment with an extra."""
    where = wheel.parent / extra
    subprocess.run([sys.executable, "-m", "venv", where], check=True)
    found = where / "bin" / "python"
    subprocess.run(
        [
            found,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--quiet",
            "--no-compile",
            f"{wheel}[{extra}]",
        ],
        check=True,
    )
    return found


@pytest.fixture(scope="module")
def python(wheel: pathlib.Path) -> pathlib.Path:
    """Give the interpreter of an environment with ``fpgapool[cli]``."""
    return _install(wheel, "cli")


def _output(*command: object) -> str:
    return subprocess.run(
        [str(word) for word in command],
        cwd="/",
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def _installed(python: pathlib.Path) -> set[str]:
    listed = _output(python, "-m", "pip", "list", "--format=freeze")
    return {line.partition("==")[0].lower() for line in listed.split()}


def test_nothing_heavy_comes_with_the_commands(python: pathlib.Path) -> None:
    names = _installed(python)
    assert {"fpgapool", "python-openstackclient"} <= names
    assert names.isdisjoint(HEAVY)


def test_programs_need_no_command_for_the_api(wheel: pathlib.Path) -> None:
    python = _install(wheel, "client")
    names = _installed(python)
    assert {"fpgapool", "openstacksdk"} <= names
    assert names.isdisjoint({*HEAVY, "osc-lib", "python-openstackclient"})
    _output(
        python,
        "-c",
        "from fpgapool import client; client.PoolApi.at('http://127.0.0.1:9')",
    )
    assert "--os-cloud" in _output(python.with_name("fpgapool-run"), "--help")


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
