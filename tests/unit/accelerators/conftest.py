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
