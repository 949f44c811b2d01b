# SPDX-License-Identifier: Apache-2.0

"""Wheels of the sources as they are now, built away from them."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
#: What ``[tool.setuptools.packages.find]`` of ``pyproject.toml`` finds.
PACKAGES = tuple(
    sorted(path.parent.name for path in ROOT.glob("fpgapool*/__init__.py"))
)
BUILD_FILES = (
    "LICENSE",
    "README.md",
    "pyproject.toml",
    "requirements.txt",
    "setup.cfg",
    "setup.py",
)
#: What has its place beside the packages, for operators.
DATA = "etc"
VERSION = "1.2.3"


def copy_sources(target: pathlib.Path) -> None:
    """Copy what a wheel is built from.

    :param target: a directory, which is there.
    """
    for name in BUILD_FILES:
        shutil.copy(ROOT / name, target)
    for directory in (*PACKAGES, DATA):
        shutil.copytree(
            ROOT / directory,
            target / directory,
            # Hidden: caches of tools that someone ran in there.
            ignore=shutil.ignore_patterns("__pycache__", ".*"),
        )


def build_wheel(
    sources: pathlib.Path, output: pathlib.Path, *, native: bool = False
) -> pathlib.Path:
    """Build a wheel with what is installed here.

    :param output: a directory for the wheel.
    :param native: whether a part is compiled, which takes half a minute.
    """
    subprocess.run(
        [
            *(sys.executable, "-m", "build", "--wheel", "--no-isolation"),
            *(f"--outdir={output}", str(sources)),
        ],
        env={
            **os.environ,
            "PBR_VERSION": VERSION,
            "FPGAPOOL_COMPILE": str(int(native)),
        },
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (path,) = output.glob("*.whl")
    return path
