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

"""The fault matrix: complete, and told in the documentation as it is."""

from __future__ import annotations

import itertools

from fpgapool.core import codes
from fpgapool.objects import states
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
