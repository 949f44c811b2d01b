# SPDX-License-Identifier: Apache-2.0

"""The thread that reads the tree of domains and projects from Keystone.

Decisions do not wait for Keystone: the last known tree applies.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool.clients import keystone_projects
from fpgapool.common import exception
from fpgapool.conductor.outside import following
from fpgapool.core.queues import share_tree

LOG = logging.getLogger(__name__)


class TreeFollower(following.Follower[Mapping[str, str]]):
    """Reads the projects at intervals."""

    what = "projects"

    def __init__(
        self,
        projects: keystone_projects.Projects,
        on_change: Callable[[share_tree.Places], None],
        interval_s: float,
        on_failure: Callable[[str], None],
    ) -> None:
        self._on_change = on_change
        super().__init__(
            projects.parents,
            interval_s,
            on_failure,
            "all share alike, whatever their domains",
        )

    def changed(self, found: Mapping[str, str]) -> None:
        try:
            places = share_tree.Places(found)
        except ValueError as error:
            raise exception.KeystoneUnavailable(reason=str(error)) from error
        self._on_change(places)
        LOG.info(
            "Shares follow Keystone: %d projects below %d others and domains",
            len(found),
            len(set(found.values())),
        )
