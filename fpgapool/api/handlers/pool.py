# SPDX-License-Identifier: Apache-2.0

"""The pool's summary and snapshot."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fpgapool.api import call as calls
from fpgapool.policies import sessions as policies

_RESERVATIONS = ("reservable_slots", "reserved_slots", "pending_reservations")


def show(call: calls.Call) -> calls.Answer:
    """Show the conductor's summary of the pool."""
    summary = call.ask(lambda source: source.pool_summary())
    # Asked at most once, and only if there is anything to hide: using this
    # right leaves a line in the audit log.
    sees_all = functools.cache(lambda: call.may(policies.ALL_PROJECTS))
    return calls.Answer(
        document={
            "pool": {
                "strategy": summary["strategy"],
                "waiting": summary["waiting"],
                "sessions": summary["sessions"],
                "hosts": [
                    _host(call, host, sees_all) for host in summary["hosts"]
                ],
            }
        }
    )


def snapshot(call: calls.Call) -> calls.Answer:
    """Show the data by which Nova places instances."""
    found, call.origin.recorded = call.backends.snapshot.get()
    tag = found["generation"]
    headers = {"ETag": f'"{tag}"'}
    if tag in call.etags or "*" in call.etags:
        return calls.Answer(document=None, status=304, headers=headers)
    return calls.Answer(document={"snapshot": found}, headers=headers)


def _host(
    call: calls.Call, host: dict[str, Any], sees_all: Callable[[], bool]
) -> dict[str, Any]:
    # An older or newer conductor may send more than this version of the API.
    return {
        "uuid": host["uuid"],
        "name": host["name"],
        "up": host["up"],
        "devices": [
            {
                "name": device["name"],
                "healthy": device["healthy"],
                **{name: device[name] for name in _RESERVATIONS},
                "slots": [
                    _slot(call, slot, sees_all) for slot in device["slots"]
                ],
            }
            for device in host["devices"]
        ],
    }


def _slot(
    call: calls.Call, slot: dict[str, Any], sees_all: Callable[[], bool]
) -> dict[str, Any]:
    keys = {
        name: calls.public_key(call, slot[name], sees_all)
        for name in ("accelerator", "programmed")
    }
    return {name: slot[name] for name in ("slot", "shape", "state")} | keys
