# SPDX-License-Identifier: Apache-2.0

"""Quotas and usage of projects."""

from __future__ import annotations

import datetime

from tempest import config
from tempest.lib import decorators

from fpgapool_tempest_plugin.tests import base

CONF = config.CONF

RESOURCES = (
    *("sessions", "queued", "queued_bytes", "bitstream_bytes", "groups"),
    *("group_slots", "group_clients", "max_priority"),
)


class QuotasTest(base.PoolTest):
    """Limits, as far as the API sets them."""

    feature = "quotas"

    @decorators.attr(type="smoke")
    @decorators.idempotent_id("cc1c9644-9504-4187-96af-83c64a32c508")
    def test_show_own(self) -> None:
        quota = self.reader.show("quotas")["quota"]
        self.assertEqual(self.project_id, quota["project_id"])
        for resource in RESOURCES:
            self.assertEqual("default", quota[resource]["source"])
            self.assertIsInstance(quota[resource]["in_use"], int)

    @decorators.idempotent_id("80ae9b03-9881-4069-9d14-4f100416e6f4")
    def test_defaults_are_those_of_a_new_project(self) -> None:
        defaults = self.reader.show("quotas", "defaults")["quota"]
        own = self.reader.show("quotas")["quota"]
        self.assertEqual(
            {name: defaults[name]["limit"] for name in RESOURCES},
            {name: own[name]["limit"] for name in RESOURCES},
        )

    @decorators.idempotent_id("17c98b79-611c-4992-89a9-f39a609ea85c")
    def test_session_counts(self) -> None:
        self.open_ready()
        quota = self.reader.show("quotas")["quota"]
        self.assertEqual(1, quota["sessions"]["in_use"])

    @decorators.idempotent_id("2342e480-a0e2-416c-af3e-1bf52ef0ee92")
    def test_set_and_reset(self) -> None:
        path = ("quotas", self.other_project_id)
        self.addCleanup(self.admin.delete, *path)
        quota = self.admin.replace(*path, quota={"sessions": 3})["quota"]
        self.assertEqual(3, quota["sessions"]["limit"])
        seen = self.stranger.show("quotas")["quota"]
        self.assertEqual("project", seen["sessions"]["source"])
        self.assertEqual("default", seen["groups"]["source"])
        self.admin.replace(*path, quota={"sessions": None, "groups": 2})
        seen = self.stranger.show(*path)["quota"]
        self.assertEqual("default", seen["sessions"]["source"])
        self.assertEqual(2, seen["groups"]["limit"])
        self.admin.delete(*path)
        seen = self.stranger.show("quotas")["quota"]
        self.assertEqual("default", seen["groups"]["source"])

    @decorators.attr(type="negative")
    @decorators.idempotent_id("720d6cc6-0b2a-44c3-afdd-881c6c10673f")
    def test_limit_is_kept(self) -> None:
        path = ("quotas", self.other_project_id)
        self.addCleanup(self.admin.delete, *path)
        self.admin.replace(*path, quota={"groups": 0})
        self.assert_refused(
            429,
            "QUOTA_EXCEEDED",
            self.stranger.create,
            "groups",
            group={
                "accelerator": CONF.fpgapool.accelerator,
                "name": self.name("group"),
                "size": 1,
            },
        )
        self.assertEqual([], self.stranger.list("groups"))

    @decorators.attr(type="negative")
    @decorators.idempotent_id("641ae5f9-531a-46fa-80eb-e6d71937d319")
    def test_session_beyond_the_limit_waits(self) -> None:
        path = ("quotas", self.other_project_id)
        self.addCleanup(self.admin.delete, *path)
        self.admin.replace(*path, quota={"sessions": 1, "queued": 1})
        first = self.open_session(self.stranger)
        self.wait_session(first, "READY", self.stranger)
        second = self.open_session(self.stranger)
        # It may have been chosen to follow the first one.
        seen = self.wait_session(second, "QUEUED", self.stranger)
        codes = [reason["code"] for reason in seen["pending_reasons"]]
        self.assertEqual(["PROJECT_SESSION_LIMIT"], codes)
        self.assert_refused(
            429,
            "QUOTA_EXCEEDED",
            self.stranger.create,
            "sessions",
            session=self.wanted(),
        )
        self.stranger.delete("sessions", first["id"])
        self.wait_session(second, "READY", self.stranger)

    @decorators.attr(type="negative")
    @decorators.idempotent_id("9c2f1cb9-f1cd-4f9f-b126-f010742db8c2")
    def test_bad_limits(self) -> None:
        for quota in (
            {},
            {"sessions": -2},
            {"sessions": "many"},
            {"boards": 1},
        ):
            self.assert_refused(
                400,
                "INVALID_REQUEST",
                self.admin.replace,
                *("quotas", self.project_id),
                quota=quota,
            )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("fa1c133c-a58a-4f07-a844-30c36ddf6912")
    def test_members_set_nothing(self) -> None:
        path = ("quotas", self.project_id)
        self.assert_refused(
            403,
            "FORBIDDEN",
            self.member.replace,
            *path,
            quota={"sessions": 1000},
        )
        self.assert_refused(403, "FORBIDDEN", self.member.delete, *path)

    @decorators.attr(type="negative")
    @decorators.idempotent_id("986b8a73-bb74-4c61-94d7-a8626a83d4f8")
    def test_quota_of_another_project(self) -> None:
        self.assert_refused(
            404,
            "PROJECT_NOT_FOUND",
            self.reader.show,
            *("quotas", self.other_project_id),
        )


class UsageTest(base.PoolTest):
    """What projects have used."""

    @decorators.idempotent_id("d161f276-0e86-422b-8c6a-e8550aeb7edf")
    def test_new_project_has_used_nothing(self) -> None:
        self.assertEqual([], self.stranger.list("usage"))

    @decorators.idempotent_id("d33f7506-067e-4be7-8329-893314d7def2")
    def test_session_is_charged(self) -> None:
        session = self.open_ready()
        self.member.delete("sessions", session["id"])

        def charged() -> bool:
            found = self.reader.list("usage", group_by="accelerator")
            return any(
                one["accelerator"] == session["accelerator"]
                and one["sessions"] == 1
                and one["slot_s"] > 0
                for one in found
            )

        self.wait_until(charged, "the session is charged")
        (total,) = self.admin.list(
            "usage",
            all_projects=True,
            project_id=self.project_id,
            group_by="project",
        )
        self.assertEqual(1, total["sessions"])
        today = datetime.datetime.now(datetime.UTC).date()
        tomorrow = today + datetime.timedelta(days=1)
        # Midnight may pass meanwhile.
        found = self.reader.list(
            "usage", start=today - datetime.timedelta(days=1), end=tomorrow
        )
        self.assertEqual(1, len(found))
        late = tomorrow + datetime.timedelta(days=1)
        self.assertEqual([], self.reader.list("usage", start=late))

    @decorators.attr(type="negative")
    @decorators.idempotent_id("eb1a30e8-eae1-4bf7-8d60-b3ec00964a62")
    def test_bad_parameters(self) -> None:
        for query in (
            {"start": "yesterday"},
            {"start": "2026-02-30"},
            {"start": "2026-02-02", "end": "2026-02-01"},
            {"group_by": "colour"},
            {"marker": "x"},
        ):
            self.assert_refused(
                400, "INVALID_REQUEST", self.reader.list, "usage", **query
            )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("e46d3281-4029-4d0a-a5b9-8023d79da598")
    def test_usage_of_others(self) -> None:
        for query in (
            {"all_projects": True},
            {"project_id": self.other_project_id},
        ):
            self.assert_refused(
                403, "FORBIDDEN", self.member.list, "usage", **query
            )
