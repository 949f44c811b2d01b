# SPDX-License-Identifier: Apache-2.0

"""Accelerators of the library."""

from __future__ import annotations

from typing import Any

from fpgapool import objects
from fpgapool.api import call as calls
from fpgapool.api.answers import paging
from fpgapool.api.http import errors
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import library as description
from fpgapool.vocabulary import names

_MEMBERS = [str(one.shown) for one in description.ACCELERATOR.shown]


def index(call: calls.Call) -> calls.Answer:
    """List the accelerators."""
    known = call.backends.library.get().visible(call.caller.project_id)
    members = [_document(call, profile) for profile in known.values()]
    return calls.Answer(
        document=paging.listing(
            call, "accelerators", description.ACCELERATOR, members, key="name"
        )
    )


def show(call: calls.Call) -> calls.Answer:
    """Show an accelerator; one of the caller's project takes precedence."""
    name = call.path["name"]
    library = call.backends.library.get()
    key = library.resolve(name, call.caller.project_id or "")
    if key is None:
        # Another process may just have recorded it.
        library = call.backends.load_library()
        key = library.resolve(name, call.caller.project_id or "")
    if key is not None:
        document = _document(call, library.profiles[key])
        return calls.Answer(document={"accelerator": document})
    known = library.visible(call.caller.project_id)
    raise errors.ApiError(
        codes.ACCELERATOR_NOT_FOUND, names.unknown_accelerator(name, known)
    )


def _document(
    call: calls.Call, profile: objects.AcceleratorProfile
) -> dict[str, Any]:
    return {
        **{name: getattr(profile, name) for name in _MEMBERS},
        "platforms": profile.platforms or {},
        "links": calls.self_link(call.url("accelerators", profile.name)),
    }
