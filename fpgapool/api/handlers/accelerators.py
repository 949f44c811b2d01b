# SPDX-License-Identifier: Apache-2.0

"""Accelerators of the library."""

from __future__ import annotations

from typing import Any

from fpgapool import objects
from fpgapool.api import call as calls
from fpgapool.api.answers import paging
from fpgapool.api.http import errors
from fpgapool.bitstreams import library as libraries
from fpgapool.vocabulary import codes

#: Members that every user of an accelerator may see.
_MEMBERS = (
    "name",
    "description",
    "peak_bytes_per_s",
    "return_ratio",
    "stateless",
    "params_schema",
    "chunk_multiple_bytes",
    "core",
)


def index(call: calls.Call) -> calls.Answer:
    """List the accelerators."""
    known = _library(call).visible(call.caller.project_id)
    members = [_document(call, profile) for profile in known.values()]
    return calls.Answer(
        document=paging.listing(
            call, "accelerators", members, sort_key="name", key="name"
        )
    )


def show(call: calls.Call) -> calls.Answer:
    """Show an accelerator; the own project's one takes precedence."""
    name = call.path["name"]
    library = _library(call)
    key = library.resolve(name, call.caller.project_id or "")
    if key is not None:
        document = _document(call, library.profiles[key])
        return calls.Answer(document={"accelerator": document})
    raise errors.missing(codes.ACCELERATOR_NOT_FOUND, "accelerator", name)


def _library(call: calls.Call) -> libraries.Library:
    return call.backends.load_library()


def _document(
    call: calls.Call, profile: objects.AcceleratorProfile
) -> dict[str, Any]:
    return {
        **{name: getattr(profile, name) for name in _MEMBERS},
        "shapes": list(profile.shapes),
        "platforms": profile.platforms or {},
        "links": calls.self_link(call.url("accelerators", profile.name)),
    }
