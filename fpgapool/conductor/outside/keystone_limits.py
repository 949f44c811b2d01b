# SPDX-License-Identifier: Apache-2.0

"""The thread that reads Keystone's limits.

Clients' requests do not wait for Keystone: the last known limits apply.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool.clients import keystone
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.outside import following

LOG = logging.getLogger(__name__)


class LimitsFollower(following.Follower[keystone.UnifiedLimits]):
    """Reads the limits at intervals.

    :param default: the configured limits, where Keystone has none.
    """

    what = "limits"

    def __init__(
        self,
        reader: keystone.LimitsReader,
        default: admission.ProjectQuota,
        on_change: Callable[[admission.Quotas], None],
        interval_s: float,
        on_failure: Callable[[str], None],
    ) -> None:
        self._default = default
        self._on_change = on_change
        super().__init__(
            reader.read,
            interval_s,
            on_failure,
            "the configured ones still apply",
        )

    def changed(self, found: keystone.UnifiedLimits) -> None:
        self._on_change(quotas(found, self._default))
        self._log(found)

    def _log(self, limits: keystone.UnifiedLimits) -> None:
        LOG.info(
            "Limits from Keystone: %s; %d projects have limits of their own",
            dict(limits.registered),
            len(limits.of_projects),
        )
        missing = set(admission.RESOURCES).difference(limits.registered)
        if missing:
            LOG.warning(
                "Keystone has no registered limit for %s; the configured"
                " default applies",
                ", ".join(sorted(missing)),
            )


def quotas(
    limits: keystone.UnifiedLimits, default: admission.ProjectQuota
) -> admission.Quotas:
    """Return projects' quotas.

    :param limits: Keystone's limits; unknown resources are ignored.
    """
    return admission.Quotas.layered(
        default.replaced(_known(limits.registered), admission.FROM_KEYSTONE),
        {
            project_id: _known(own)
            for project_id, own in limits.of_projects.items()
        },
        admission.FROM_KEYSTONE,
    )


def _known(limits: Mapping[str, int]) -> dict[str, int]:
    return {
        resource: limit
        for resource, limit in limits.items()
        if resource in admission.RESOURCES
    }
