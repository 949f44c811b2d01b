# SPDX-License-Identifier: Apache-2.0

"""The policies of the REST API, for oslo.policy and its tools.

They are derived from :data:`fpgapool.api.routes.ROUTES` and
:data:`fpgapool.api.http.rights.RIGHTS`, and enforced by
:mod:`fpgapool.api.policy`.
"""

from __future__ import annotations

from collections.abc import Iterable

from oslo_policy import policy

from fpgapool.api import routes
from fpgapool.api.http import rights


def list_rules() -> list[policy.RuleDefault]:
    basic = [
        policy.RuleDefault(name, check, description=description)
        for name, check, description in rights.BASIC
    ]
    by_policy: dict[str, list[routes.Route]] = {}
    for route in routes.ROUTES:
        by_policy.setdefault(route.policy, []).append(route)
    beside = {right.name: right for right in rights.RIGHTS}
    return [
        *basic,
        *(
            _documented(
                name,
                found[0].rule,
                " ".join(f"{one.summary}." for one in found),
                (f"{one.method} {one.path}" for one in found),
            )
            for name, found in by_policy.items()
            if name not in beside
        ),
        *(
            _documented(one.name, one.rule, one.description, one.operations)
            for one in beside.values()
        ),
    ]


def _documented(
    name: str, check: str, description: str, operations: Iterable[str]
) -> policy.DocumentedRuleDefault:
    return policy.DocumentedRuleDefault(
        name=name,
        check_str=check,
        description=description,
        operations=[
            {"method": method, "path": path}
            for method, path in (one.split() for one in operations)
        ],
        scope_types=None if check == rights.PUBLIC else ["project"],
    )
