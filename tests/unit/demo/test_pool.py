# SPDX-License-Identifier: Apache-2.0

"""What a pool for groups needs, before it starts."""

import pathlib

import pytest

from demo import errors
from demo import pool


def test_a_directory_without_room_for_sockets_is_named(
    tmp_path: pathlib.Path,
) -> None:
    directory = tmp_path / ("d" * 40)
    with (
        pytest.raises(errors.DemoError, match=r"d{40} would be too long"),
        pool.running(directory, pool.for_groups(0.5, 0.005)),
    ):
        pytest.fail("it runs")
    assert not directory.exists()
