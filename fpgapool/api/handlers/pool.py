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

"""The pool at a glance."""

from __future__ import annotations

from typing import Any

from fpgapool.api import call as calls


def show(call: calls.Call) -> calls.Answer:
    """Show what the conductor says of the pool."""
    summary = call.backends.conductor.pool_summary()
    return calls.Answer(
        document={
            "pool": {
                "strategy": summary["strategy"],
                "waiting": summary["waiting"],
                "sessions": summary["sessions"],
                "hosts": [_host(host) for host in summary["hosts"]],
            }
        }
    )


def _host(host: dict[str, Any]) -> dict[str, Any]:
    # An older or newer conductor may say more than this version of the API.
    return {
        "uuid": host["uuid"],
        "name": host["name"],
        "up": host["up"],
        "devices": [
            {
                "name": device["name"],
                "healthy": device["healthy"],
                "slots": [_slot(slot) for slot in device["slots"]],
            }
            for device in host["devices"]
        ],
    }


def _slot(slot: dict[str, Any]) -> dict[str, Any]:
    return {
        name: slot[name]
        for name in ("slot", "shape", "state", "accelerator", "programmed")
    }
