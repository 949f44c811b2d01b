# SPDX-License-Identifier: Apache-2.0

"""Projects' limits."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from fpgapool.conductor.decisions.requests import admission
from fpgapool.core import events
from fpgapool.db import api as db_api
from fpgapool.vocabulary import shapes

# -1 means no limit.
_LIMITS = shapes.mapping_of(
    shapes.nullable(shapes.integer(admission.UNLIMITED, 2**63 - 1)),
    name=shapes.one_of(admission.RESOURCES),
)


class QuotaBook:
    """Projects' effective limits: their own or the defaults.

    :ivar kept_here: whether the limits are in the database, not in Keystone.
    :param others: the limits from Keystone; None: those in the rows apply.
    """

    def __init__(
        self,
        default: admission.ProjectQuota,
        records: Iterable[db_api.QuotaRecord],
        last_id: int,
        others: admission.Quotas | None = None,
    ) -> None:
        self._default = default
        self._last_id = last_id
        self._rows: dict[str, dict[str, db_api.QuotaRecord]] = {}
        for record in records:
            self._rows.setdefault(record.project_id, {})[record.resource] = (
                record
            )
        self.kept_here = others is None
        self._quotas = others or self._of_rows()

    def _of_rows(self) -> admission.Quotas:
        limits = {
            project_id: {
                resource: row.hard_limit
                for resource, row in rows.items()
                if row.hard_limit is not None
                # A newer release may have stored other resources.
                and resource in admission.RESOURCES
            }
            for project_id, rows in self._rows.items()
        }
        return admission.Quotas.layered(
            self._default, limits, admission.FROM_PROJECT
        )

    def of(self, project_id: str | None) -> admission.ProjectQuota:
        """Return a project's limits; without a project, the defaults."""
        if project_id is None:
            return self._quotas.default
        return self._quotas.of(project_id)

    def session_limits(self) -> events.SessionLimitsChanged:
        """Return an event for the core: limits on slots and priorities."""
        return self._quotas.session_limits()

    def replace(self, quotas: admission.Quotas) -> None:
        """Replace all limits with Keystone's."""
        self._quotas = quotas

    def set(
        self, project_id: str, limits: Mapping[str, int | None]
    ) -> list[db_api.QuotaRecord]:
        """Change limits of a project.

        :param limits: new limits by resource; None restores the default.
        """
        rows = self._rows.setdefault(project_id, {})
        changed = []
        for resource, limit in limits.items():
            known = rows.get(resource)
            if limit == (known.hard_limit if known else None):
                continue
            if known is None:
                self._last_id += 1
            rows[resource] = db_api.QuotaRecord(
                id=known.id if known else self._last_id,
                project_id=project_id,
                resource=resource,
                hard_limit=limit,
            )
            changed.append(rows[resource])
        if changed and self.kept_here:
            self._quotas = self._of_rows()
        return changed

    def stored(self) -> dict[str, dict[str, int | None]]:
        """Return the values of all rows, by project and resource."""
        return {
            project_id: {name: row.hard_limit for name, row in rows.items()}
            for project_id, rows in self._rows.items()
        }


def check_limits(limits: Any) -> dict[str, int | None]:
    """Check the limits in a request, and return them by resource."""
    found = _LIMITS(limits, "limits")
    if not found:
        raise shapes.Invalid("limits", "must contain at least one resource")
    return found


def document(quota: admission.ProjectQuota) -> dict[str, dict[str, Any]]:
    """Return a quota as JSON, by resource."""
    return {
        resource: {
            "limit": quota.limit(resource),
            "source": quota.source(resource),
        }
        for resource in admission.RESOURCES
    }
