# SPDX-License-Identifier: Apache-2.0

"""The fault matrix: complete, and told in the documentation as it is."""

from __future__ import annotations

import itertools

from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.functional.system import matrix


def test_every_cell_is_there_once() -> None:
    found = [(cell.component, cell.kind, cell.state) for cell in matrix.CELLS]
    assert sorted(found) == sorted(
        itertools.product(matrix.COMPONENTS, matrix.KINDS, matrix.STATES)
    )
    assert sorted((one.component, one.kind) for one in matrix.FAULTS) == (
        sorted(itertools.product(matrix.COMPONENTS, matrix.KINDS))
    )


def test_ends_are_states_and_codes() -> None:
    for cell in matrix.CELLS:
        for end in filter(None, (cell.end, cell.meanwhile)):
            state, code = end.split()
            assert state in states.TERMINAL
            assert getattr(codes, code) == code


def test_the_document_has_the_same_tables() -> None:
    # If it has not: python -m tests.functional.system.matrix
    text = matrix.DOCUMENT.read_text()
    assert matrix.document(text) == text
