# SPDX-License-Identifier: Apache-2.0

"""Files that are there as a whole or not at all."""

import pathlib

import pytest

from fpgapool.sim import errors
from fpgapool.sim import files


def test_content_is_replaced(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "f"
    files.write(path, b"old")
    files.write(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_left_of_a_failure(tmp_path: pathlib.Path) -> None:
    """What is there, a directory, cannot be replaced."""
    path = tmp_path / "f"
    path.mkdir()
    with pytest.raises(errors.InputError, match=r"f: Is a directory"):
        files.write(path, b"new")
    assert list(tmp_path.iterdir()) == [path]
