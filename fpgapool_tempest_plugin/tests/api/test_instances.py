# SPDX-License-Identifier: Apache-2.0

"""Instances that have tokens, and who may ask for tokens."""

from __future__ import annotations

from tempest.lib import decorators
from tempest.lib.common.utils import data_utils

from fpgapool_tempest_plugin.tests import base


class InstancesTest(base.PoolTest):
    """No instance is made here."""

    @decorators.idempotent_id("7c423239-5e72-43af-9d9e-d95acdde54cb")
    def test_new_project_has_none(self) -> None:
        self.assertEqual([], self.stranger.list("instances"))

    @decorators.idempotent_id("edcb1240-5073-472b-b69e-a5e28d78b1bc")
    def test_of_all_projects(self) -> None:
        self.admin.list("instances", all_projects=True)
        self.assert_refused(
            403, "FORBIDDEN", self.member.list, "instances", all_projects=True
        )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("7504b9cf-7e3c-41c9-bc70-9941c1935f64")
    def test_revoke_token_of_unknown_instance(self) -> None:
        for instance_id in (data_utils.rand_uuid(), "x"):
            self.assert_refused(
                404,
                "INSTANCE_NOT_FOUND",
                self.member.delete,
                *("instances", instance_id, "token"),
            )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("82096a4d-69f5-490a-bcf4-6297fecb7a5c")
    def test_only_nova_gets_tokens(self) -> None:
        body = {
            "instance-id": data_utils.rand_uuid(),
            "project-id": self.project_id,
            "hostname": "tempest",
        }
        for user in (self.member, self.admin):
            self.assert_refused(
                403, "FORBIDDEN", user.create, "vendordata", **body
            )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("97b41eaf-9660-4745-94d7-3993e30db187")
    def test_wrong_token_of_an_instance(self) -> None:
        guest = self.member.with_token("fpi_" + "A" * 60)
        self.assert_refused(401, "UNAUTHORIZED", guest.list, "sessions")
