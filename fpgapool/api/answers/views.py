# SPDX-License-Identifier: Apache-2.0

"""The members of responses, from the descriptions of resources."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from fpgapool import objects
from fpgapool.api.http import errors
from fpgapool.api.http import microversion
from fpgapool.api.http import times
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import fields

_LOCAL_NETWORK = "local"
_TIMES = (fields.TIME, fields.MOMENT)


def members(
    described: fields.Fields,
    one: object,
    version: microversion.Version,
    *,
    recorded: bool = True,
    part: str = "",
) -> dict[str, Any]:
    """Return the members of a view or row that a version of the API has.

    :param recorded: whether it is a row, which has only stored members.
    :param part: object within the response whose members are returned; by
        default the response itself.
    """
    labels, values, are_times = _plan(described, part, version, recorded)
    found = dict(zip(labels, values(one), strict=True))
    for label in are_times:
        found[label] = times.text(found[label])
    return found


@functools.cache
def _plan(
    described: fields.Fields,
    part: str,
    version: tuple[int, int],
    recorded: bool,
) -> tuple[list[str], Callable[[Any], tuple[Any, ...]], list[str]]:
    """Return the field names of a version, a getter for their values, and the
    names of the time fields.
    """
    found = {
        str(field.shown): field
        for field in described.part(part)
        if field.since <= version
        and (field.in_record or (not recorded and field.in_view is not None))
    }
    values = operator.attrgetter(*(field.name for field in found.values()))
    are_times = [k for k, f in found.items() if f.kind in _TIMES]
    return list(found), values, are_times


def endpoints(
    found: Iterable[objects.Endpoint],
) -> list[dict[str, Any]]:
    """Return the endpoints for clients on other hosts.

    Only a front door returns the local ones.
    """
    return [
        dataclasses.asdict(one)
        for one in found
        if one.network != _LOCAL_NETWORK
    ]


def check_members(
    described: fields.Fields,
    wanted: Mapping[str, Any],
    version: microversion.Version,
    where: str,
) -> None:
    """Check that a version of the API has the members that a request names.

    :param where: the part of the request, such as ``query``.
    :raises ApiError: for the first member that needs a newer version.
    """
    for field in described:
        if field.name in wanted and version < field.since:
            raise errors.ApiError(
                codes.INVALID_REQUEST,
                f"{where}.{field.name} requires version"
                f" {microversion.Version(*field.since)}",
            )
