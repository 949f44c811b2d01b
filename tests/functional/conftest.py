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

"""What functional tests have in common: they leave nothing behind."""

import pathlib
import shutil
import tempfile
from collections.abc import Iterator

import pytest

from tests.functional.worker import harness as worker_harness


@pytest.fixture(autouse=True)
def closed_channels() -> Iterator[None]:
    """Leave no connection to a worker open behind a test.

    What fixtures of a module connected before the test stays open.
    """
    with worker_harness.closed_channels():
        yield


@pytest.fixture
def directory() -> Iterator[pathlib.Path]:
    """Give a directory whose path is short enough for Unix sockets."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="fpgapool-"))
    yield path
    shutil.rmtree(path)
