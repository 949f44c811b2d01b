#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

"""Set the limits of a project in the pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.fpgapool.cloud.plugins.module_utils import pool

DOCUMENTATION = r"""
module: quota
short_description: Set the limits of a project in the pool
description:
  - Limits that are not given are left as they are.
author: fpgapool
extends_documentation_fragment: fpgapool.cloud.pool
options:
  project:
    description: Name or ID of the project.
    type: str
    required: true
  state:
    description:
      - V(absent) resets all limits of the project to the defaults.
    type: str
    choices: [present, absent]
    default: present
  sessions:
    description: Sessions with a slot; -1 means unlimited, here and below.
    type: int
  queued:
    description: Waiting requests.
    type: int
  queued_bytes:
    description: Bytes that waiting requests claim.
    type: int
  live_per_user:
    description: Sessions of one user, waiting or with a slot.
    type: int
  sessions_per_user:
    description: Sessions of one user with a slot.
    type: int
  user_turns:
    description: Whether the users of the project take turns; 0 or 1.
    type: int
  bitstream_bytes:
    description: Bytes of the project's bitstreams.
    type: int
  groups:
    description: Groups.
    type: int
  group_slots:
    description: Slots to which the project's groups may grow.
    type: int
  group_clients:
    description: Clients that the project has attached to groups.
    type: int
  max_priority:
    description: Highest priority among sessions of other projects.
    type: int
  reservation_slots:
    description: Slots of the project's reservations that have not ended.
    type: int
  reservation_times:
    description: Times of these reservations; one that recurs counts each.
    type: int
"""

EXAMPLES = r"""
- name: Limit a project
  fpgapool.cloud.quota:
    cloud: admin
    project: demo
    sessions: 4
    queued: 100

- name: Give it the default limits again
  fpgapool.cloud.quota:
    cloud: admin
    project: demo
    state: absent
"""

RETURN = r"""
limits:
  description: The project's own limits; all others are the defaults.
  type: dict
  returned: success
"""

LIMITS = (
    *("sessions", "queued", "queued_bytes", "bitstream_bytes"),
    *("groups", "group_slots", "group_clients", "max_priority"),
    *("reservation_slots", "reservation_times", "live_per_user"),
    *("sessions_per_user", "user_turns"),
)
ARGUMENTS: dict[str, dict[str, object]] = {
    "project": {"type": "str", "required": True},
    "state": pool.STATE,
    **{name: {"type": "int"} for name in LIMITS},
}


def compare(cloud: Any, params: Mapping[str, Any]) -> pool.Change:
    """Compare the limits of a project with those that are wanted."""
    client = pool.pool(cloud)
    project = cloud.identity.find_project(
        params["project"], ignore_missing=False
    )
    found = client.get_quota(project.id)
    before = {
        name: limit["limit"]
        for name in LIMITS
        if (limit := getattr(found, name, None)) is not None
        and limit["source"] == "project"
    }
    wanted = {
        name: params[name] for name in LIMITS if params[name] is not None
    }
    if params["state"] == "absent":
        return pool.Change(
            {"limits": before},
            {"limits": {}},
            lambda: client.delete_quota(project.id),
        )
    return pool.Change(
        {"limits": before},
        {"limits": before | wanted},
        lambda: client.set_quota(project.id, **wanted),
    )


def main() -> None:
    """Run the module."""
    pool.run(ARGUMENTS, compare)


if __name__ == "__main__":
    main()
