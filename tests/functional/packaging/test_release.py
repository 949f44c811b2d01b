# SPDX-License-Identifier: Apache-2.0

"""What ``make release`` publishes."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from tests.harness import distributions

# In the gate: test_wheel.py.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Give the directory of a release of the newest commit."""
    where = tmp_path_factory.mktemp("release")
    clone, sbom = where / "clone", where / "sbom"
    subprocess.run(
        ["git", "clone", "--quiet", distributions.ROOT, clone], check=True
    )
    subprocess.run([sys.executable, "-m", "venv", sbom], check=True)
    subprocess.run(
        [
            *(sbom / "bin/python", "-m", "pip", "install", "--quiet"),
            *("--no-compile", "cyclonedx-bom>=7.5,<8"),
        ],
        check=True,
    )
    # This checks that the wheel installs, and starts there.
    subprocess.run(
        [
            clone / "tools/make-release",
            pathlib.Path(sys.executable).parent,
            sbom / "bin",
        ],
        check=True,
    )
    return clone / "dist"


def _one(dist: pathlib.Path, pattern: str) -> pathlib.Path:
    (path,) = dist.glob(pattern)
    return path


def test_all_artifacts_have_the_release_in_their_names_and_a_sum(
    dist: pathlib.Path,
) -> None:
    sources = _one(dist, "*.tar.gz").name.removesuffix(".tar.gz")
    artifacts = {
        *(f"{sources}.tar.gz", f"{sources}-py3-none-any.whl"),
        *(f"{sources}-release-notes.rst", f"{sources}-constraints.txt"),
        f"{sources}-sbom.cdx.json",
    }
    assert {path.name for path in dist.iterdir()} == {
        *artifacts,
        "SHA256SUMS",
    }
    checked = subprocess.run(
        ["sha256sum", "--check", "SHA256SUMS"],
        cwd=dist,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert checked.stdout.split() == [
        word for name in sorted(artifacts) for word in (f"{name}:", "OK")
    ]


def test_the_bill_of_materials_has_what_the_constraints_say(
    dist: pathlib.Path,
) -> None:
    bill = json.loads(_one(dist, "*.cdx.json").read_text())
    root = bill["metadata"]["component"]
    assert f"fpgapool-{root['version']}.tar.gz" in {
        path.name for path in dist.iterdir()
    }
    constraints = {
        line.lower().replace("_", "-")
        for line in _one(dist, "*-constraints.txt").read_text().splitlines()
    }
    components = {
        f"{one['name']}=={one['version']}".lower().replace("_", "-")
        for one in bill["components"]
    }
    assert components <= constraints
    names = {line.partition("==")[0] for line in components}
    assert {"jsonschema", "oslo.messaging", "falcon", "scipy"} <= names


def test_the_release_notes_have_the_prelude(dist: pathlib.Path) -> None:
    notes = _one(dist, "*-release-notes.rst").read_text()
    assert "The first release." in notes
