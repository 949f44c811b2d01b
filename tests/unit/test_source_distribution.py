# SPDX-License-Identifier: Apache-2.0

"""What is in the source distribution."""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import pytest

from tests.harness import distributions
from tests.unit.tree import BUILD_FILES
from tests.unit.tree import ROOT

DIRECTORIES = (
    *("devstack", "doc/source", "etc", "tools"),
    *distributions.PACKAGES,
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> pathlib.Path:
    """Give a repository with the files that are there now."""
    path = tmp_path_factory.mktemp("repository")
    for name in BUILD_FILES:
        shutil.copy(ROOT / name, path)
    for name in DIRECTORIES:
        shutil.copytree(
            ROOT / name,
            path / name,
            ignore=shutil.ignore_patterns("__pycache__", ".*", "build"),
        )
    git = ["git", "-C", str(path), "-c", "user.name=t", "-c", "user.email=t"]
    for command in (
        ["init", "--quiet"],
        ["add", "--all"],
        ["commit", "--quiet", "--message", "All of it"],
    ):
        subprocess.run([*git, *command], check=True)
    return path


@pytest.fixture(scope="module")
def names(repository, tmp_path_factory) -> set[str]:
    """Give the names of the files in the source distribution."""
    target = tmp_path_factory.mktemp("dist")
    result = subprocess.run(
        [
            *(sys.executable, "-m", "build", "--sdist", "--no-isolation"),
            *("--outdir", str(target), str(repository)),
        ],
        env={**os.environ, "PBR_VERSION": distributions.VERSION},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    (path,) = target.iterdir()
    with tarfile.open(path) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def test_everything_that_is_kept_is_in_it(repository, names):
    kept = {
        str(path.relative_to(repository))
        for path in repository.rglob("*")
        if path.is_file() and ".git/" not in str(path)
    }
    assert {name for name in kept if not name.endswith(".egg-info")} <= names


@pytest.mark.parametrize(
    "name",
    [
        "devstack/lib/fpgapool",
        "devstack/plugin.sh",
        "etc/fpgapool/fpgapool-api-uwsgi.ini.sample",
        "etc/fpgapool/production.conf.sample",
        "etc/logrotate.d/fpgapool",
        "etc/systemd/fpgapool-agent.service",
        "fpgapool/accelerators/profiles/aes.yaml",
        "fpgapool/api/schemas/sessions.py",
        "fpgapool/db/migrations/versions/001_tables.py",
        "fpgapool/policies.py",
        "fpgapool_dashboard/templates/fpgapool_dashboard/tabs.html",
        "etc/fpgapool/fpgapool-config-generator.conf",
    ],
)
def test_what_an_installation_needs_is_in_it(names, name):
    assert name in names
