# SPDX-License-Identifier: Apache-2.0

"""Files that are there as a whole or not at all."""

import os
import pathlib
import threading

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


def test_pipes_stay_what_they_are(tmp_path: pathlib.Path) -> None:
    """So do devices, such as /dev/stdout, which root could replace."""
    path = tmp_path / "f"
    os.mkfifo(path)
    files.check_writable(path)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    files.write(path, b"new")
    reader.join()
    assert read == [b"new"]
    assert path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]


def test_symbolic_links_stay(tmp_path: pathlib.Path) -> None:
    link, path = tmp_path / "link", tmp_path / "f"
    link.symlink_to(path)
    files.write(link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
