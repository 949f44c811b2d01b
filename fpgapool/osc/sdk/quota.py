# SPDX-License-Identifier: Apache-2.0

"""Quotas of projects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from keystoneauth1 import adapter
from openstack import resource

from fpgapool.osc.sdk import base
from fpgapool.vocabulary import accounting
from fpgapool.vocabulary import fields

_RESOURCES = fields.Fields(
    *(fields.shown(name, fields.OBJECT) for name in accounting.QUOTAS)
)


@base.described(_RESOURCES)
class Quota(base.Resource):
    """The limits of a project, and its use.

    Each resource of :data:`fpgapool.vocabulary.accounting.QUOTAS` has
    ``limit``, -1 for any amount, ``in_use`` and ``source``: ``default``,
    ``project`` or ``keystone``.
    """

    resource_key = "quota"
    base_path = "/quotas"
    allow_fetch = True
    allow_delete = True

    project_id = resource.Body("project_id", alternate_id=True)

    def set_limits(
        self, session: adapter.Adapter, limits: Mapping[str, int | None]
    ) -> Self:
        """Limit the use of the project.

        :param limits: by resource; None resets one to the default.
        """
        return self._act(session, "PUT", json={"quota": dict(limits)})
