# SPDX-License-Identifier: Apache-2.0
"""Requests that enable, drain or disable devices and hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fpgapool.api import call as calls
from fpgapool.api.http import errors
from fpgapool.core import model
from fpgapool.vocabulary import codes

_MEMBERS = (
    *("admin_state", "admin_reason", "drain_deadline_at"),
    "reservable_slots",
)


def remember(call: calls.Call, document: Mapping[str, Any]) -> None:
    """Give the audit log the state before a change.

    :param document: of the device or host.
    """
    call.trail.before = {
        name: document[name] for name in _MEMBERS if name in document
    }


def change(call: calls.Call, host_uuid: str, device_name: str | None) -> None:
    """Ask the conductor for the change in a request's body.

    :param host_uuid: of the host.
    :param device_name: None for the whole host.
    :raises ApiError: if the body contradicts itself.
    """
    wish = call.body
    deadline_s = wish.get("drain_deadline_s")
    if deadline_s is not None and (
        wish["state"] != model.AdminState.DRAINING.value
    ):
        raise errors.ApiError(
            codes.INVALID_REQUEST,
            "body.drain_deadline_s: allowed only with the state 'draining'",
        )
    call.backends.conductor.administer(
        host_uuid,
        device_name,
        wish["state"],
        reason=wish.get("reason", ""),
        drain_within_s=deadline_s,
    )
