# SPDX-License-Identifier: Apache-2.0

"""fpgapool in one environment with Nova, as an operator may have it."""

from __future__ import annotations

import json
import subprocess
import tomllib

import pytest

from tests.harness import cases
from tests.harness import distributions
from tests.services import openstack


def _pip(*arguments: str) -> str:
    return subprocess.run(
        [
            openstack.program("python"),
            *("-m", "pip", "--disable-pip-version-check", *arguments),
        ],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def _pinned() -> dict[str, str]:
    path = distributions.ROOT / "tests/services/openstack-requirements.txt"
    lines = (line.partition("#")[0].strip() for line in path.open())
    return dict(line.split("==") for line in lines if "==" in line)


@pytest.mark.long
def test_requirements_of_all_fit_together() -> None:
    assert _pip("check") == "No broken requirements found.\n"
    installed = {
        package["name"].lower(): package["version"]
        for package in json.loads(_pip("list", "--format=json"))
    }
    pinned = _pinned()
    assert {"nova", "keystone", "glance", "openstack-placement"} == set(pinned)
    assert {name: installed[name] for name in pinned} == pinned
    # One of each extra that is there.
    assert {
        *("fpgapool", "falcon", "alembic", "oslo.limit", "pyeclib"),
        *("pymysql", "psycopg", "python-openstackclient"),
    } <= set(installed)


def _scripts() -> list[str]:
    text = (distributions.ROOT / "pyproject.toml").read_text()
    return sorted(tomllib.loads(text)["project"]["scripts"])


@pytest.mark.parametrize("name", cases.some(_scripts(), "fpgapool-sim".__eq__))
def test_commands_start(name: str) -> None:
    result = subprocess.run(
        [openstack.program(name), "--help"],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert f"usage: {name}" in result.stdout


def test_the_openstack_command_and_the_api_are_there() -> None:
    result = subprocess.run(
        [openstack.program("openstack"), "fpga", "session", "list", "--help"],
        cwd="/",
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert "--all-projects" in result.stdout
    subprocess.run(
        [openstack.program("python"), "-c", "import fpgapool.wsgi.api"],
        cwd="/",
        check=True,
    )
