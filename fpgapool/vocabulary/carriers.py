# SPDX-License-Identifier: Apache-2.0

"""Carriers: what goes along with a request through all services.

A carrier is an object with two members, each of which may be missing:
``global_request_id``, OpenStack's ID of the user's action, which may span
several services; and ``traceparent``, the position in a trace as W3C's Trace
Context defines it. Neither changes what the pool does.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping

from fpgapool.vocabulary import rules

Carrier: typing.TypeAlias = dict[str, typing.Any]

GLOBAL_REQUEST_ID = "global_request_id"
TRACEPARENT = "traceparent"

#: The header in which services of OpenStack receive the global ID.
REQUEST_ID_HEADER = "X-OpenStack-Request-ID"

_REQUEST_ID: typing.Final = re.compile(rules.REQUEST_ID)
_FORMS: typing.Final = {
    GLOBAL_REQUEST_ID: re.compile(
        "req-[0-9A-Za-z]{8}(-[0-9A-Za-z]{4}){3}-[0-9A-Za-z]{12}"
    ),
    TRACEPARENT: re.compile(
        "00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
    ),
}


def valid(given: object) -> Carrier:
    """Return the valid members of a stranger's carrier; drop all others.

    They are written to logs, so they must not contain spaces or newlines.
    """
    if not isinstance(given, Mapping):
        return {}
    return {
        name: value
        for name, form in _FORMS.items()
        if isinstance(value := given.get(name), str) and form.fullmatch(value)
    }


def request_id(given: object) -> str:
    """Return a stranger's request ID, or an empty string if it is invalid."""
    if isinstance(given, str) and _REQUEST_ID.fullmatch(given):
        return given
    return ""
