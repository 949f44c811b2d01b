#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

"""Say which accelerators the instances of a flavor use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.fpgapool.cloud.plugins.module_utils import pool

DOCUMENTATION = r"""
module: flavor
short_description: Say which accelerators the instances of a flavor use
description:
  - Sets the extra specs C(fpgapool:...) of a flavor that exists, and removes
    those that are not given. Others are left alone.
author: fpgapool
extends_documentation_fragment: fpgapool.cloud.pool
options:
  name:
    description: Name or ID of the flavor.
    type: str
    required: true
  state:
    description: V(absent) removes all of these extra specs.
    type: str
    choices: [present, absent]
    default: present
  accelerators:
    description: Names of accelerators that instances use.
    type: list
    elements: str
  affinity:
    description: Whether instances are placed near boards.
    type: str
    choices: [preferred, required, avoid]
  sla:
    description: How much their deadlines matter; not with O(affinity).
    type: str
    choices: [high, soft]
  max_sessions:
    description: How many sessions each instance may have at a time.
    type: int
"""

EXAMPLES = r"""
- name: Place instances near boards for AES
  fpgapool.cloud.flavor:
    cloud: admin
    name: crypto-near
    accelerators: [aes]
    affinity: required
"""

RETURN = r"""
extra_specs:
  description: The flavor's extra specs C(fpgapool:...).
  type: dict
  returned: success
"""

PREFIX = "fpgapool:"
SPECS = ("accelerators", "affinity", "sla", "max_sessions")
#: The first in which Nova refuses extra specs that are wrong.
MICROVERSION = "2.86"
ARGUMENTS: dict[str, dict[str, object]] = {
    "name": {"type": "str", "required": True},
    "state": pool.STATE,
    "accelerators": {"type": "list", "elements": "str"},
    "affinity": {
        "type": "str",
        "choices": ["preferred", "required", "avoid"],
    },
    "sla": {"type": "str", "choices": ["high", "soft"]},
    "max_sessions": {"type": "int"},
}


def compare(cloud: Any, params: Mapping[str, Any]) -> pool.Change:
    """Compare the extra specs of a flavor with those that are wanted."""
    compute = cloud.compute
    compute.default_microversion = MICROVERSION
    flavor = compute.find_flavor(
        params["name"], ignore_missing=False, get_extra_specs=True
    )
    before = {
        name: value
        for name, value in flavor.extra_specs.items()
        if name.startswith(PREFIX)
    }
    after = {}
    for name in SPECS if params["state"] == "present" else ():
        value = params[name]
        if value is not None:
            after[PREFIX + name] = (
                ",".join(value) if isinstance(value, list) else str(value)
            )

    def apply() -> None:
        # Nova checks the new ones, before any is removed.
        if after:
            compute.create_flavor_extra_specs(flavor, after)
        for name in before.keys() - after.keys():
            compute.delete_flavor_extra_specs_property(flavor, name)

    return pool.Change({"extra_specs": before}, {"extra_specs": after}, apply)


def main() -> None:
    """Run the module."""
    pool.run(ARGUMENTS, compare, mutually_exclusive=[("affinity", "sla")])


if __name__ == "__main__":
    main()
