# SPDX-License-Identifier: Apache-2.0

"""Limits of projects that the database keeps."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from fpgapool.conductor.decisions.requests import admission
from fpgapool.core import events
from fpgapool.db import api as db_api

_MAX_LIMIT = 2**63 - 1


class Book:
    """The limits set for projects, and the configured defaults.

    :param default: for resources without a limit of the project.
    :param records: the rows of the database.
    :param last_id: the highest row id.
    """

    def __init__(
        self,
        default: admission.ProjectQuota,
        records: Iterable[db_api.QuotaRecord],
        last_id: int,
    ) -> None:
        self._default = default
        self._last_id = last_id
        self._rows: dict[str, dict[str, db_api.QuotaRecord]] = {}
        for record in records:
            self._rows.setdefault(record.project_id, {})[record.resource] = (
                record
            )

    def quotas(self) -> admission.Quotas:
        """Return the limits of all projects."""
        limits = {
            project_id: {
                resource: row.hard_limit
                for resource, row in rows.items()
                if row.hard_limit is not None
                # A newer version may have stored other resources.
                and resource in admission.RESOURCES
            }
            for project_id, rows in self._rows.items()
        }
        return admission.Quotas.layered(
            self._default, limits, admission.FROM_PROJECT
        )

    def set(
        self, project_id: str, limits: Mapping[str, int | None]
    ) -> list[db_api.QuotaRecord]:
        """Change limits of a project.

        :param limits: by resource; others stay. None: back to the default.
        :returns: the rows to write.
        """
        rows = self._rows.setdefault(project_id, {})
        changed = []
        for resource, limit in limits.items():
            known = rows.get(resource)
            if limit == (known.hard_limit if known else None):
                continue
            rows[resource] = db_api.QuotaRecord(
                id=known.id if known else self._next_id(),
                project_id=project_id,
                resource=resource,
                hard_limit=limit,
            )
            changed.append(rows[resource])
        return changed

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id


class Current:
    """The limits in force.

    :ivar kept_here: whether the database keeps them, not Keystone.
    :param book: the limits in the database.
    :param others: the limits from Keystone; None: those of the book apply.
    """

    def __init__(self, book: Book, others: admission.Quotas | None) -> None:
        self._book = book
        self.kept_here = others is None
        self._quotas = others or book.quotas()

    def of(self, project_id: str | None) -> admission.ProjectQuota:
        """Return the limits of a project; None: of one without its own."""
        if project_id is None:
            return self._quotas.default
        return self._quotas.of(project_id)

    def session_limits(self) -> events.SessionLimitsChanged:
        """Return the limits of slots as an event for the core."""
        return self._quotas.session_limits()

    def replace(self, quotas: admission.Quotas) -> None:
        """Replace all limits."""
        self._quotas = quotas

    def set(
        self, project_id: str, limits: Mapping[str, int | None]
    ) -> list[db_api.QuotaRecord]:
        """Change limits of a project, see :meth:`Book.set`."""
        rows = self._book.set(project_id, limits)
        if rows:
            self._quotas = self._book.quotas()
        return rows


def check_limits(limits: Any) -> dict[str, int | None]:
    """Check the limits in a request.

    :param limits: of any type.
    :returns: the limits by resource.
    :raises ValueError: with the reason.
    """
    if not isinstance(limits, dict) or not limits:
        raise ValueError("limits must be an object with a resource or more")
    for resource, limit in limits.items():
        if resource not in admission.RESOURCES:
            raise ValueError(
                f"unknown resource {resource!r:.80}; known are"
                f" {', '.join(admission.RESOURCES)}"
            )
        if limit is None:
            continue
        # bool is a subclass of int in Python, but True is no limit.
        if type(limit) is not int or not (
            admission.UNLIMITED <= limit <= _MAX_LIMIT
        ):
            raise ValueError(
                f"the limit of {resource} must be a whole number from 0 to"
                f" {_MAX_LIMIT}, or {admission.UNLIMITED} for any number"
            )
    return limits


def document(quota: admission.ProjectQuota) -> dict[str, dict[str, Any]]:
    """Return a quota as JSON, by resource."""
    return {
        resource: {
            "limit": quota.limit(resource),
            "source": quota.source(resource),
        }
        for resource in admission.RESOURCES
    }
