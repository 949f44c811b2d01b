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

"""A pool of one slot, with a real worker process."""

import pathlib
import shutil
import tempfile
from collections.abc import Iterator

import pytest

from fpgapool.accelerators import base


@pytest.fixture(scope="module")
def directory() -> Iterator[pathlib.Path]:
    """Give a directory whose path is short enough for sockets."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="fpgapool-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module", autouse=True)
def operator_directory(directory: pathlib.Path) -> Iterator[pathlib.Path]:
    """Give the directory of the operator's profiles, which is empty."""
    own = directory / "accelerators"
    own.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(base.DIRECTORY_VARIABLE, str(own))
        yield own
