# SPDX-License-Identifier: Apache-2.0

"""No accelerators but the built-in ones."""

import pathlib

import pytest

from fpgapool.accelerators import base


@pytest.fixture(autouse=True)
def operator_directory(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> pathlib.Path:
    """Give the directory of the operator's profiles, which is empty."""
    directory = tmp_path / "accelerators"
    directory.mkdir()
    monkeypatch.setenv(base.DIRECTORY_VARIABLE, str(directory))
    return directory
