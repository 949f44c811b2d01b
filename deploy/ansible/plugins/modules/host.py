#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

"""Enable, drain or disable a host of the pool, or one of its boards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.fpgapool.cloud.plugins.module_utils import pool

DOCUMENTATION = r"""
module: host
short_description: Enable, drain or disable a host of the pool, or a board
description:
  - Says whether sessions get slots of a host, or of one of its boards.
  - Options that are not given are left as they are.
author: fpgapool
extends_documentation_fragment: fpgapool.cloud.pool
options:
  host:
    description: UUID of the host, or its name if that is unique.
    type: str
    required: true
  device:
    description: Name of one of its boards. By default the host with all.
    type: str
  state:
    description:
      - V(enabled) offers slots to sessions, and forgets failures.
      - V(draining) gives no slot to a new session, and disables the hardware
        when the last session has ended. Nothing changes if that happened.
      - V(disabled) gives no slot to a new session; the others keep theirs.
    type: str
    choices: [enabled, draining, disabled]
  reason:
    description: Reason, which operators see. Needs O(state).
    type: str
  drain_deadline_s:
    description:
      - With O(state=draining), seconds after which the rest of the sessions
        lose their slots. It counts when the drain begins.
    type: float
  reservable_slots:
    description: Number of slots of O(device) that instances can reserve.
    type: int
"""

EXAMPLES = r"""
- name: Drain a host within an hour
  fpgapool.cloud.host:
    cloud: admin
    host: compute1
    state: draining
    reason: new kernel
    drain_deadline_s: 3600

- name: Let instances reserve a slot
  fpgapool.cloud.host:
    cloud: admin
    host: compute1
    device: board0
    reservable_slots: 1
"""

RETURN = r"""
state:
  description: The operator's setting.
  type: str
  returned: success
reason:
  description: The operator's reason.
  type: str
  returned: success
reservable_slots:
  description: Slots that instances can reserve.
  type: int
  returned: with O(device)
"""

ARGUMENTS: dict[str, dict[str, object]] = {
    "host": {"type": "str", "required": True},
    "device": {"type": "str"},
    "state": {"type": "str", "choices": ["enabled", "draining", "disabled"]},
    "reason": {"type": "str"},
    "drain_deadline_s": {"type": "float"},
    "reservable_slots": {"type": "int"},
}


def compare(cloud: Any, params: Mapping[str, Any]) -> pool.Change:
    """Compare a host, or a board, with what is wanted."""
    client = pool.pool(cloud)
    host = pool.find(client, "host", params["host"])
    if params["device"] is None:
        found = client.get_host(host)
        administer = client.administer_host
    else:
        found = _board(client, host, params["device"])
        administer = client.administer_device
    before: dict[str, Any] = {
        "state": found.admin_state,
        "reason": found.admin_reason,
    }
    if params["device"] is not None:
        before["reservable_slots"] = found.reservable_slots
    after = _wanted(before, params)

    def apply() -> None:
        change = {
            name: value
            for name, value in after.items()
            if value != before[name]
        }
        if "state" in change or "reason" in change:
            change |= {"state": after["state"], "reason": after["reason"]}
        if change.get("state") == "draining" and params["drain_deadline_s"]:
            change["drain_deadline_s"] = params["drain_deadline_s"]
        administer(found.id, **change)

    return pool.Change(before, after, apply)


def _wanted(
    before: Mapping[str, Any], params: Mapping[str, Any]
) -> dict[str, Any]:
    after = dict(before)
    # A drain ends with hardware that is disabled.
    there = {None, before["state"]}
    if before["state"] == "disabled":
        there.add("draining")
    if params["state"] not in there:
        after |= {"state": params["state"], "reason": ""}
    for name in ("reason", "reservable_slots"):
        if params[name] is not None:
            after[name] = params[name]
    return after


def _board(client: Any, host_uuid: str, name: str) -> Any:
    found = [
        one for one in client.devices(host_uuid=host_uuid) if one.name == name
    ]
    if not found:
        raise pool.exceptions.CommandError(
            f"host {host_uuid} has no board {name!r}"
        )
    return found[0]


def main() -> None:
    """Run the module."""
    pool.run(
        ARGUMENTS,
        compare,
        required_one_of=[("state", "reservable_slots")],
        required_by={
            "reason": ["state"],
            "drain_deadline_s": ["state"],
            "reservable_slots": ["device"],
        },
    )


if __name__ == "__main__":
    main()
