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

"""Accelerators of the library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fpgapool.api import call as calls
from fpgapool.api import errors
from fpgapool.api import paging
from fpgapool.core import codes
from fpgapool.db import api as db_api

#: What everybody may know, and what it is unless the profile says it.
_MEMBERS: Mapping[str, Any] = {
    "description": "",
    "peak_bytes_per_s": 0.0,
    "return_ratio": 1.0,
    "stateless": False,
    "shapes": (),
    "params_schema": {},
    "chunk_multiple_bytes": 1,
    "core": "",
}


def index(call: calls.Call) -> calls.Answer:
    """List the accelerators."""
    members = [_document(call, one) for one in _library(call)]
    return calls.Answer(
        document=paging.listing(
            call, "accelerators", members, sort_key="name", key="name"
        )
    )


def show(call: calls.Call) -> calls.Answer:
    """Show an accelerator."""
    name = call.path["name"]
    for record in _library(call):
        if record.name == name:
            return calls.Answer(
                document={"accelerator": _document(call, record)}
            )
    raise errors.ApiError(
        codes.ACCELERATOR_NOT_FOUND, f"there is no accelerator {name!r:.80}"
    )


def _library(call: calls.Call) -> list[db_api.AcceleratorRecord]:
    return call.backends.database.accelerators()


def _document(
    call: calls.Call, record: db_api.AcceleratorRecord
) -> dict[str, Any]:
    return {
        "name": record.name,
        **{
            name: record.profile.get(name, default)
            for name, default in _MEMBERS.items()
        },
        "links": calls.self_link(call.url("accelerators", record.name)),
    }
