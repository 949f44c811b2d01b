# SPDX-License-Identifier: Apache-2.0

"""The pool as a whole."""

from __future__ import annotations

from tempest.lib import decorators

from fpgapool_tempest_plugin.tests import base


class PoolSummaryTest(base.PoolTest):
    """The summary, the hosts and Nova's snapshot."""

    @decorators.attr(type="smoke")
    @decorators.idempotent_id("c8631668-3b8e-4391-b3c6-a1f6d38611aa")
    def test_summary(self) -> None:
        pool = self.reader.show("pool")["pool"]
        self.assertTrue(pool["strategy"])
        counts = pool["counts"]
        self.assertGreater(counts["hosts_up"], 0)
        self.assertGreater(counts["devices_healthy"], 0)
        self.assertTrue(counts["slots"])

    @decorators.idempotent_id("8414f63e-822c-4e87-9d2c-ec5be05b4760")
    def test_summary_of_the_first_version_hides_hosts_from_members(
        self,
    ) -> None:
        pool = self.member.at_version("1.0").show("pool")["pool"]
        self.assertEqual([], pool["hosts"])
        pool = self.admin.at_version("1.0").show("pool")["pool"]
        self.assertTrue(pool["hosts"])

    @decorators.idempotent_id("74388f58-fd1c-403e-977a-fbc4fb6c9083")
    def test_summary_counts_sessions(self) -> None:
        self.open_ready()
        self.wait_until(
            lambda: self.reader.show("pool")["pool"]["sessions"].get("READY"),
            "the session is counted",
        )

    @decorators.idempotent_id("c6b08a35-5fe0-410b-a59c-09f333bfc66f")
    def test_hosts_of_an_administrator(self) -> None:
        page = self.admin.show("pool", "hosts")
        self.assertGreaterEqual(page["total"], len(page["hosts"]))
        host = page["hosts"][0]
        found = self.admin.list("pool", "hosts", name_part=host["name"])
        self.assertIn(host["uuid"], [one["uuid"] for one in found])

    @decorators.idempotent_id("9538e035-8472-4483-a488-d100346e1e5f")
    def test_snapshot(self) -> None:
        snapshot = self.admin.show("pool", "snapshot")["snapshot"]
        hosts = self.admin.list("hosts")
        self.assertTrue(
            {one["uuid"] for one in hosts} & set(snapshot["hosts"])
        )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("89fc1164-259b-46db-bcaf-cd85437627f0")
    def test_hosts_are_not_for_members(self) -> None:
        for user in (self.reader, self.member, self.stranger):
            for path in (("pool", "hosts"), ("pool", "snapshot")):
                self.assert_refused(403, "FORBIDDEN", user.show, *path)

    @decorators.attr(type="negative")
    @decorators.idempotent_id("ccc0e47e-caeb-49a2-b572-13296ad911ef")
    def test_hosts_are_not_in_the_first_version(self) -> None:
        self.assert_refused(
            404,
            "PATH_NOT_FOUND",
            self.admin.at_version("1.0").show,
            *("pool", "hosts"),
        )
