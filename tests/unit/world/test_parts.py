# SPDX-License-Identifier: Apache-2.0

"""Parts of worlds are in one place."""

import pathlib

import pytest

from tests.world import bugs
from tests.world import hunt
from tests.world import parts


@pytest.mark.parametrize("name", parts.ALL)
def test_a_schedule_with_a_part_reads_as_it_was_written(
    name: str, tmp_path: pathlib.Path
) -> None:
    drawn = parts.draw(4, having=dict.fromkeys(parts.ALL, False))
    assert not drawn.parts
    with_part = parts.draw(
        4, having={**dict.fromkeys(parts.ALL, False), name: True}
    )
    assert with_part.parts == (name,)
    path = tmp_path / "schedule.json"
    path.write_text(with_part.text())
    assert parts.read(path) == with_part


def test_a_part_that_there_is_not_is_named(tmp_path: pathlib.Path) -> None:
    drawn = parts.draw(4, having=dict.fromkeys(parts.ALL, False))
    path = tmp_path / "schedule.json"
    path.write_text(drawn.text().replace('"parts": []', '"parts": ["tides"]'))
    with pytest.raises(ValueError, match="tides"):
        parts.read(path)


def test_bugs_of_parts_are_kept_with_their_parts() -> None:
    for name, bug in bugs.BUGS.items():
        assert bug.part is None or bug.part in parts.ALL, name
        kept = parts.read(hunt.path_of(name))
        assert bug.part is None or bug.part in kept.parts, name
