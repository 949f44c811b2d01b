# SPDX-License-Identifier: Apache-2.0

"""Pages of lists, as in other OpenStack APIs."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeVar

from fpgapool.api import call as calls
from fpgapool.api.http import errors
from fpgapool.objects import bounds
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import fields

_Row = TypeVar("_Row")

_ASCENDING = "asc"


def limit(call: calls.Call) -> int:
    """Return the maximum number of members in the answer."""
    most = call.backends.limits.max_page_length
    return min(call.query.get("limit", most), most)


def project_id(call: calls.Call, all_projects_rule: str) -> str | None:
    """Return the project whose members are listed; None means all projects.

    :raises ApiError: if the caller may not list all projects, or names another
        project without ``all_projects``.
    """
    wanted: str | None = call.query.get("project_id")
    if call.query.get("all_projects"):
        call.require(all_projects_rule)
        return wanted
    if wanted not in (None, call.project_id):
        raise errors.ApiError(
            codes.INVALID_REQUEST,
            "to list another project by project_id, add all_projects=true",
        )
    return call.project_id


def order(
    call: calls.Call, sort_key: str, *, ascending: bool = True
) -> list[tuple[str, bool]]:
    """Return the sort keys of a list, and whether each is ascending.

    :param sort_key: the default sort key.
    :param ascending: the default direction.
    :raises ApiError: if there are more directions than keys.
    """
    keys = call.query.get("sort_key", [sort_key])
    given = [name == _ASCENDING for name in call.query.get("sort_dir", ())]
    if len(given) > len(keys):
        raise errors.ApiError(
            codes.INVALID_REQUEST,
            f"the query has {len(given)} sort_dir for {len(keys)} sort_key;"
            " give at most one sort_dir for each sort_key",
        )
    last = given[-1] if given else ascending
    return list(itertools.zip_longest(keys, given, fillvalue=last))


def bad_marker(marker: str) -> errors.ApiError:
    return errors.ApiError(
        codes.INVALID_REQUEST, f"marker {marker!r:.80} is not in the list"
    )


def document(
    call: calls.Call,
    name: str,
    members: Sequence[Mapping[str, Any]],
    *,
    key: str = "id",
    path: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a page of a list, with a link to the next page.

    :param members: as many as may be on the page, at most; those that do not
        fit into the answer are left to the next page.
    :param path: path of the list; by default its name.
    """
    shown = bounds.fitting(members)
    found: dict[str, Any] = {name: shown}
    if shown and (len(shown) < len(members) or len(shown) == limit(call)):
        query = {**call.query, "marker": shown[-1][key]}
        found[f"{name}_links"] = [
            {
                "rel": "next",
                "href": call.url(*(path or [name]), **_plain(query)),
            }
        ]
    return found


def _plain(query: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in query.items()
    }


def listing(
    call: calls.Call,
    name: str,
    listed: fields.Fields,
    members: Iterable[Mapping[str, Any]],
    *,
    key: str = "id",
    path: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the requested page of a list whose members are all known.

    :param listed: description of the resource, with the default order and the
        filters.
    :param key: the unique member that markers contain.
    :param path: path of the list; by default its name.
    :raises ApiError: if the marker is not in the list.
    """
    page = chosen(call, listed, members, operator.itemgetter, key=key)
    return document(call, name, page, key=key, path=path)


def chosen(
    call: calls.Call,
    listed: fields.Fields,
    rows: Iterable[_Row],
    getter: Callable[[str], Callable[[_Row], Any]],
    *,
    key: str = "id",
    wanted: Callable[[_Row], bool] = lambda _row: True,
) -> list[_Row]:
    """Return what is on the requested page, before documents are made of it.

    A page also starts after a marker that the filters no longer let pass: it
    may have changed since the previous page.

    :param getter: returns a function that returns a member of a row.
    :param wanted: a filter in addition to those of ``listed``.
    :raises ApiError: if the marker is not in the list, whose order is not that
        of markers.
    """
    by = order(call, listed.sort_keys[0])
    by.append((key, by[-1][1]))
    ordered = list(rows)
    for attribute, ascending in reversed(by):
        ordered.sort(key=getter(attribute), reverse=not ascending)
    marker = call.query.get("marker")
    if marker is not None:
        ordered = _after(marker, ordered, getter(key), by)
    tests = [wanted]
    for parameter, member in listed.filters.items():
        if parameter in call.query:
            tests.append(_equals(getter(member), call.query[parameter]))
    passing = (one for one in ordered if all(test(one) for test in tests))
    return list(itertools.islice(passing, limit(call)))


def _equals(
    value: Callable[[_Row], Any], expected: Any
) -> Callable[[_Row], bool]:
    return lambda row: bool(value(row) == expected)


def _after(
    marker: str,
    ordered: list[_Row],
    value: Callable[[_Row], Any],
    by: Sequence[tuple[str, bool]],
) -> list[_Row]:
    """Return the rows after a marker, or after the place that it had.

    :param value: returns the member that markers contain.
    :param by: the members that order the rows; the last is that of markers.
    """
    keys = list(map(value, ordered))
    if marker in keys:
        return ordered[keys.index(marker) + 1 :]
    (first, ascending), (key, _) = by[0], by[-1]
    if first != key:
        raise bad_marker(marker)
    return [
        row
        for row, own in zip(ordered, keys, strict=True)
        if (own > marker if ascending else own < marker)
    ]
