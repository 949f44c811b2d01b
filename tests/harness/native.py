# SPDX-License-Identifier: Apache-2.0

"""A native build of the sources as they are now, beside them."""

from __future__ import annotations

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

from tests.harness import distributions


def environment(*paths: pathlib.Path) -> dict[str, str]:
    """Give the environment of a process that imports from there first."""
    found = os.pathsep.join(map(str, (*paths, distributions.ROOT)))
    return {**os.environ, "PYTHONPATH": found, "PYTHONSAFEPATH": "1"}


def install(target: pathlib.Path) -> None:
    """Build a native wheel, and install it without its libraries.

    :param target: a directory, which need not be there.
    """
    with tempfile.TemporaryDirectory() as directory:
        sources, output = (pathlib.Path(directory, n) for n in ("in", "out"))
        sources.mkdir()
        distributions.copy_sources(sources)
        wheel = distributions.build_wheel(sources, output, native=True)
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "--disable-pip-version-check"),
                *("install", "--quiet", "--no-deps", "--no-index"),
                *("--no-compile", f"--target={target}", wheel),
            ],
            check=True,
        )


def cached(directory: pathlib.Path) -> pathlib.Path:
    """Return where these sources are installed, built once.

    :param directory: keeps one installation for each state of the sources.
    """
    state = hashlib.sha256()
    files = [distributions.ROOT / "setup.py"]
    files += sorted((distributions.ROOT / "fpgapool").rglob("*.py"))
    for path in files:
        state.update(f"{path}\n".encode() + path.read_bytes())
    target = directory / f"{sys.implementation.cache_tag}-{state.hexdigest()}"
    if not target.exists():
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory) as made:
            # Complete or not there.
            install(pathlib.Path(made, "installed"))
            pathlib.Path(made, "installed").rename(target)
    return target
