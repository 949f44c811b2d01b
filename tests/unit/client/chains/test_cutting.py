# SPDX-License-Identifier: Apache-2.0

"""Where the output of one stage is cut for the next one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fpgapool.client.chains import cutting

CHUNK_BYTES = 100


def _cuts(
    tasks: list[int], multiple_bytes: int, frame_bytes: int
) -> list[cutting.Cut]:
    """Cut the output of tasks, which comes in frames."""
    made = cutting.Cutter(CHUNK_BYTES, multiple_bytes)
    cuts, seen_bytes = [], 0
    for length_bytes in tasks:
        while length_bytes > frame_bytes:
            seen_bytes += frame_bytes
            length_bytes -= frame_bytes
            cuts += made.add(seen_bytes, last=False, end=False)
        seen_bytes += length_bytes
        cuts += made.add(seen_bytes, last=True, end=False)
    return cuts + made.add(seen_bytes, last=True, end=True)


@given(
    tasks=st.lists(st.integers(0, 350), max_size=20),
    multiple_bytes=st.integers(1, CHUNK_BYTES),
    frames=st.tuples(st.integers(1, 400), st.integers(1, 400)),
)
def test_pieces_depend_on_the_tasks_alone(tasks, multiple_bytes, frames):
    first, second = (
        _cuts(tasks, multiple_bytes, frame_bytes) for frame_bytes in frames
    )
    assert first == second
    *before, last = first
    assert sum(one.length_bytes for one in first) == sum(tasks)
    assert last.end
    for one in before:
        assert 0 < one.length_bytes <= CHUNK_BYTES
        assert one.length_bytes % multiple_bytes == 0
        assert not one.end
    assert last.length_bytes <= CHUNK_BYTES


def test_a_piece_of_output_is_a_piece_of_input() -> None:
    assert _cuts([10, 30, 7], 1, 1000) == [
        cutting.Cut(10, False),
        cutting.Cut(30, False),
        cutting.Cut(7, False),
        cutting.Cut(0, True),
    ]


def test_the_rest_comes_first_in_the_next_piece() -> None:
    assert _cuts([10, 30, 7], 16, 1000) == [
        cutting.Cut(32, False),
        cutting.Cut(15, True),
    ]


def test_nothing_is_cut_after_the_end() -> None:
    made = cutting.Cutter(CHUNK_BYTES, 1)
    assert made.add(5, last=True, end=True) == [cutting.Cut(5, True)]
    assert made.add(5, last=True, end=True) == []
