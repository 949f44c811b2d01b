# SPDX-License-Identifier: Apache-2.0

"""How large an answer may be, and lists that keep within it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import TypeVar

#: Maximum size of an answer.
MAX_ANSWER_BYTES = 64 * 1024
# Space in an answer with a list that is reserved for its other members.
_OTHER_MEMBERS_BYTES = 1024

#: Maximum number of hosts for which a call returns figures.
MAX_HOSTS = 100
#: Maximum number of accelerators whose waiting sessions are counted apart.
MAX_COUNTED_ACCELERATORS = 200

_Document = TypeVar("_Document", bound=Mapping[str, Any])


def fitting(documents: Iterable[_Document]) -> list[_Document]:
    """Return as many documents as fit into one answer, at least one."""
    found: list[_Document] = []
    left_bytes = MAX_ANSWER_BYTES - _OTHER_MEMBERS_BYTES
    for document in documents:
        # A list has a comma and a space after each member.
        left_bytes -= len(json.dumps(document)) + 2
        if left_bytes < 0 and found:
            break
        found.append(document)
    return found
