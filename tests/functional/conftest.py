# SPDX-License-Identifier: Apache-2.0

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
