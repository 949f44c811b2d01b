# SPDX-License-Identifier: Apache-2.0

"""Kernels of the built-in accelerators, each with its source and manifest."""

from __future__ import annotations

import pathlib

_DIRECTORY = pathlib.Path(__file__).parent


def names() -> tuple[str, ...]:
    """List the accelerators that have a kernel."""
    return tuple(sorted(path.stem for path in _DIRECTORY.glob("*.json")))


def read(name: str) -> tuple[bytes, bytes]:
    """Read a kernel's manifest and source, or raise KeyError."""
    if name not in names():
        raise KeyError(name)
    manifest = (_DIRECTORY / f"{name}.json").read_bytes()
    return manifest, (_DIRECTORY / f"{name}.cl").read_bytes()
