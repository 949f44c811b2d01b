# SPDX-License-Identifier: Apache-2.0

"""Groups of slots, their goals and their clients."""

from __future__ import annotations

import datetime
import typing

from tempest import config
from tempest.lib import decorators
from tempest.lib import exceptions
from tempest.lib.common.utils import data_utils
from tempest.lib.common.utils import test_utils

from fpgapool_tempest_plugin.tests import base

CONF = config.CONF


class GroupsTest(base.PoolTest):
    """A group of one slot, and requests that are refused."""

    def wanted(self, **members: object) -> base.Document:  # type: ignore[override]
        """Return what a group is made of."""
        return {
            "accelerator": CONF.fpgapool.accelerator,
            "name": self.name("group"),
            "size": 1,
            **members,
        }

    def make_group(self, **members: object) -> base.Document:
        """Make a group, and wait until it has its slot."""
        made = self.member.create("groups", group=self.wanted(**members))
        group_id = made["group"]["id"]
        self.addCleanup(self.remove, group_id)
        self.wait_until(
            lambda: self.shown(group_id)["state"] == "ACTIVE",
            f"group {group_id} is ACTIVE",
        )
        return self.shown(group_id)

    def remove(self, group_id: str) -> None:
        """Delete a group, and wait until its slots are free."""
        test_utils.call_and_ignore_notfound_exc(
            self.member.delete, "groups", group_id
        )
        self.wait_until(
            lambda: self.is_gone(group_id), f"group {group_id} is gone"
        )

    def is_gone(self, group_id: str) -> bool:
        try:
            self.shown(group_id)
        except exceptions.NotFound:
            return True
        return False

    def shown(self, group_id: str) -> base.Document:
        found = self.member.show("groups", group_id)["group"]
        return typing.cast(base.Document, found)

    @decorators.attr(type="smoke")
    @decorators.idempotent_id("ea48eeef-4d1b-42b7-8426-9fd5ad125164")
    def test_life(self) -> None:
        group = self.make_group()
        self.assertEqual(self.project_id, group["project_id"])
        self.assertEqual((1, 1), (len(group["members"]), group["size"]))
        self.assertEqual(1, group["members_total"])
        name = self.name("group")
        path = ("groups", group["id"])
        renamed = self.member.update(*path, group={"name": name})["group"]
        self.assertEqual(name, renamed["name"])
        (listed,) = self.reader.list("groups", name=name)
        self.assertEqual(group["id"], listed["id"])
        self.member.delete(*path)
        self.wait_until(lambda: self.is_gone(group["id"]), "it is gone")

    @decorators.idempotent_id("c451a367-de96-491e-a9ee-c97c91afffd7")
    def test_goal(self) -> None:
        group = self.make_group(elastic=True)
        path = ("groups", group["id"], "goal")
        soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(1)
        goal = {"deadline_at": soon.isoformat(), "actions": 5}
        found = self.member.replace(*path, goal=goal)["group"]["goal"]
        self.assertEqual(("deadline", 5), (found["kind"], found["actions"]))
        self.member.delete(*path)
        self.assertIsNone(self.shown(group["id"])["goal"])
        self.member.update(*path[:2], group={"elastic": False})
        self.assert_refused(
            409, "GROUP_NOT_ELASTIC", self.member.replace, *path, goal=goal
        )

    @decorators.idempotent_id("1d5cbaf3-a958-468b-840f-eb0146abb9d9")
    def test_clients(self) -> None:
        group = self.make_group()
        path = ("groups", group["id"], "clients")
        client = self.member.create(*path)["client"]
        self.assertTrue(client["secret"])
        (listed,) = self.reader.list(*path)
        self.assertEqual(client["id"], listed["id"])
        self.assertNotIn("secret", listed)
        self.assertEqual(
            1, self.reader.show(*path, client["id"])["client"]["hosts_total"]
        )
        self.member.delete(*path, client["id"])
        self.assertEqual([], self.reader.list(*path))
        self.assert_refused(
            404,
            "GROUP_CLIENT_NOT_FOUND",
            self.member.delete,
            *(*path, client["id"]),
        )

    @decorators.idempotent_id("db9a7645-fe7d-410f-9ee2-37872a29e0d1")
    def test_group_of_all_projects(self) -> None:
        group = self.make_group()
        found = self.admin.list("groups", all_projects=True)
        self.assertIn(group["id"], [one["id"] for one in found])
        self.assert_refused(
            403, "FORBIDDEN", self.stranger.list, "groups", all_projects=True
        )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("eab11979-90fa-4f7f-8bbb-3b44dd5cb170")
    def test_group_of_another_project(self) -> None:
        group = self.make_group()
        path = ("groups", group["id"])
        for call in (self.stranger.show, self.stranger.delete):
            self.assert_refused(404, "GROUP_NOT_FOUND", call, *path)
        self.assert_refused(
            404, "GROUP_NOT_FOUND", self.stranger.create, *path, "clients"
        )
        self.assertEqual([], self.stranger.list("groups"))

    @decorators.attr(type="negative")
    @decorators.idempotent_id("6ab0fcbb-b4a5-4f29-a375-64ba145fa346")
    def test_reader_changes_nothing(self) -> None:
        group = self.make_group()
        path = ("groups", group["id"])
        for call, members in (
            (self.reader.update, {"group": {"name": "other"}}),
            (self.reader.delete, {}),
        ):
            self.assert_refused(403, "FORBIDDEN", call, *path, **members)
        self.assert_refused(
            403, "FORBIDDEN", self.reader.create, *path, "clients"
        )
        self.assert_refused(
            403,
            "FORBIDDEN",
            self.reader.create,
            "groups",
            group=self.wanted(),
        )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("baf9b5a8-7ab4-4bcc-b910-d08dc170fd2a")
    def test_members_share_nothing(self) -> None:
        self.assert_refused(
            403,
            "FORBIDDEN",
            self.member.create,
            "groups",
            group=self.wanted(shared=True),
        )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("b003e263-20df-4b6d-926f-66dc4866941d")
    def test_taken_name(self) -> None:
        group = self.make_group()
        self.assert_refused(
            409,
            "GROUP_NAME_TAKEN",
            self.member.create,
            "groups",
            group=self.wanted(name=group["name"]),
        )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("8c4490b2-60ad-4ea6-95ff-b86a1c856461")
    def test_bad_members(self) -> None:
        for status, code, members in (
            (400, "INVALID_GROUP_SIZE", {"size": 0}),
            (400, "INVALID_GROUP_SIZE", {"size": 2, "max_size": 1}),
            (400, "INVALID_REQUEST", {"size": "two"}),
            (400, "INVALID_REQUEST", {"name": "a/b"}),
            (400, "INVALID_REQUEST", {"colour": "red"}),
            (400, "INVALID_GOAL", {"goal": {"rate_per_s": -1}}),
            (400, "UNKNOWN_ACCELERATOR", {"accelerator": "no-such"}),
        ):
            self.assert_refused(
                status,
                code,
                self.member.create,
                "groups",
                group=self.wanted(**members),
            )
        self.assertEqual([], self.member.list("groups"))

    @decorators.attr(type="negative")
    @decorators.idempotent_id("250a8ade-1d7f-4249-9ade-f17b29c36865")
    def test_unknown_group(self) -> None:
        for call in (self.member.show, self.member.delete):
            self.assert_refused(
                404,
                "GROUP_NOT_FOUND",
                call,
                *("groups", data_utils.rand_uuid()),
            )
