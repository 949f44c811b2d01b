#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

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
