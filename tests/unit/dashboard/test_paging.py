# SPDX-License-Identifier: Apache-2.0

"""Pages of a list, forwards and backwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fpgapool_dashboard import paging

SIZE = 3


class Listed:
    """A list of the API, whose own direction is given."""

    def __init__(self, members: list[str], direction: str) -> None:
        self._members = members
        self._direction = direction
        self.queries: list[dict[str, Any]] = []
        self.taken = 0

    def __call__(self, **query: Any) -> Iterator[str]:
        self.queries.append(query)
        turned = query.get("sort_dir", self._direction) != self._direction
        members = self._members[::-1] if turned else self._members
        first = 0
        if "marker" in query:
            first = members.index(query["marker"]) + 1
        for member in members[first:]:
            self.taken += 1
            yield member


def _pages(listed: Listed, direction: str) -> Iterator[paging.Page]:
    """Go to the end of the list, page by page."""
    place = paging.Place(SIZE)
    while True:
        page = paging.page(listed, place, direction=direction)
        yield page
        if not page.has_next:
            return
        place = paging.Place(SIZE, page.members[-1])


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("count", range(11))
def test_there_and_back(count: int, direction: str) -> None:
    members = [f"{number:02}" for number in range(count)]
    listed = Listed(members, direction)
    pages = list(_pages(listed, direction))
    assert [one for page in pages for one in page.members] == members
    assert [page.has_previous for page in pages] == [False] + [True] * (
        len(pages) - 1
    )
    for before, page in zip(pages[-2::-1], pages[:0:-1], strict=True):
        place = paging.Place(SIZE, page.members[0], backwards=True)
        assert paging.page(listed, place, direction=direction) == before


def test_no_more_is_taken_than_shown() -> None:
    listed = Listed([str(number) for number in range(1000)], "asc")
    paging.page(listed, paging.Place(SIZE))
    assert listed.taken <= SIZE + 1


def test_query_is_passed_on() -> None:
    listed = Listed(["a"], "desc")
    paging.page(listed, paging.Place(SIZE), direction="desc", state="READY")
    assert listed.queries == [{"limit": SIZE + 1, "state": "READY"}]


def test_nothing_is_before_a_member_that_became_the_first() -> None:
    place = paging.Place(SIZE, "a", backwards=True)
    page = paging.page(Listed(["a", "b"], "asc"), place)
    assert page == paging.Page([], has_previous=False, has_next=True)
