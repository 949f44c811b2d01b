# SPDX-License-Identifier: Apache-2.0

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
