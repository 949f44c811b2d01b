# SPDX-License-Identifier: Apache-2.0

"""Version documents and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fpgapool.api import call as calls
from fpgapool.api.http import microversion


def index(call: calls.Call) -> calls.Answer:
    """List the API's versions."""
    return calls.Answer(document={"versions": [_version(call)]})


def show(call: calls.Call) -> calls.Answer:
    """Show version 1."""
    return calls.Answer(document={"version": _version(call)})


def make_document(
    describe: Callable[[], dict[str, Any]],
) -> Callable[[calls.Call], calls.Answer]:
    """Return the handler that returns the description of the whole API."""

    def document(call: calls.Call) -> calls.Answer:
        """Return the description of the whole API."""
        return calls.Answer(document=describe())

    return document


def _version(call: calls.Call) -> dict[str, Any]:
    return {
        "id": "v1",
        "status": "CURRENT",
        "min_version": str(microversion.OLDEST),
        # Clients look for the newest version under either of these names.
        "version": str(microversion.NEWEST),
        "max_version": str(microversion.NEWEST),
        "links": calls.self_link(call.url()),
    }
