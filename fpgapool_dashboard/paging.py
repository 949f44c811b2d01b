# SPDX-License-Identifier: Apache-2.0

"""Pages of a list, forwards and backwards."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import NamedTuple

#: The API's name of each direction, and of the opposite one.
_OPPOSITE = {"asc": "desc", "desc": "asc"}


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a page is in a list.

    :ivar size: how many members a page has at most.
    :ivar marker: the member next to the page; empty: the list's beginning.
    :ivar backwards: whether the page ends before the marker.
    """

    size: int
    marker: str = ""
    backwards: bool = False


class Page(NamedTuple):
    """A page of a list.

    :ivar has_previous: whether there are members before it.
    :ivar has_next: whether there are members after it.
    """

    members: list[Any]
    has_previous: bool
    has_next: bool


def page(
    listed: Callable[..., Iterable[Any]],
    place: Place,
    *,
    direction: str = "asc",
    **query: Any,
) -> Page:
    """Return a page of a list.

    :param listed: returns the list's members for a query, one after the
        other; it may ask for several of the API's pages, which may be shorter
        than asked for.
    :param direction: the list's own direction, ``asc`` or ``desc``.
    :param query: further parameters of the query.
    """
    query["limit"] = place.size + 1
    if place.marker:
        query["marker"] = place.marker
    if place.backwards:
        query["sort_dir"] = _OPPOSITE[direction]
    found = list(itertools.islice(listed(**query), place.size + 1))
    more = len(found) > place.size
    members = found[: place.size]
    if place.backwards:
        return Page(members[::-1], has_previous=more, has_next=True)
    return Page(members, has_previous=bool(place.marker), has_next=more)
