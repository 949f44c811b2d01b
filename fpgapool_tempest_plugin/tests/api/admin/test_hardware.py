# SPDX-License-Identifier: Apache-2.0

"""Hosts, boards, slots and services, for operators."""

from __future__ import annotations

import typing

from tempest.lib import decorators
from tempest.lib.common.utils import data_utils

from fpgapool_tempest_plugin.tests import base

KINDS = ("hosts", "devices", "slots", "services")


class HardwareTest(base.PoolTest):
    """What operators see; nothing is changed."""

    credentials: typing.ClassVar[list[typing.Any]] = [
        *base.PoolTest.credentials,
        "system_admin",
    ]

    @decorators.attr(type="smoke")
    @decorators.idempotent_id("3e890c1e-a89b-4a3d-a44c-3ad42a8eb014")
    def test_hosts_devices_and_slots_fit(self) -> None:
        host = next(
            one for one in self.admin.list("hosts", up=True) if one["slots"]
        )
        shown = self.admin.show("hosts", host["uuid"])["host"]
        self.assertEqual(host["name"], shown["name"])
        devices = self.admin.list("devices", host=host["uuid"])
        self.assertEqual(host["devices"], len(devices))
        device = self.admin.show("devices", devices[0]["id"])["device"]
        slots = self.admin.list("slots", device=device["id"])
        self.assertEqual(device["slots"], len(slots))
        slot = self.admin.show("slots", slots[0]["id"])["slot"]
        self.assertEqual(
            (device["id"], host["uuid"]),
            (slot["device_id"], slot["host_uuid"]),
        )

    @decorators.idempotent_id("1fb57035-9ef2-4b04-82d5-733a16e18605")
    def test_slot_tells_its_session(self) -> None:
        session = self.open_ready()

        def is_told() -> bool:
            slots = self.admin.list("slots", state="ready")
            return session["id"] in [slot["session_id"] for slot in slots]

        self.wait_until(is_told, "the slot tells its session")

    @decorators.idempotent_id("82712171-4e0e-4330-bb84-df1642003790")
    def test_services(self) -> None:
        found = self.admin.list("services")
        binaries = {one["binary"] for one in found if one["up"]}
        self.assertEqual({"fpgapool-conductor", "fpgapool-agent"}, binaries)
        agents = self.admin.list("services", binary="fpgapool-agent")
        self.assertEqual(
            {host["uuid"] for host in self.admin.list("hosts")},
            {agent["id"] for agent in agents},
        )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("018ae881-f529-4980-b411-d42c615adef7")
    def test_not_for_members(self) -> None:
        for user in (self.reader, self.member, self.stranger):
            for kind in KINDS:
                self.assert_refused(403, "FORBIDDEN", user.list, kind)

    @decorators.attr(type="negative")
    @decorators.idempotent_id("6cb78f5b-dfca-476c-9428-1302a778072d")
    def test_not_for_the_system(self) -> None:
        """All policies want a token of a project."""
        system = self.client_of(self.os_system_admin)
        for path in (*KINDS, "pool", "sessions"):
            self.assert_refused(403, "FORBIDDEN", system.show, path)

    @decorators.attr(type="negative")
    @decorators.idempotent_id("edc56807-e915-4883-b94c-bce03ea09cee")
    def test_unknown(self) -> None:
        for kind, code in (
            ("hosts", "HOST_NOT_FOUND"),
            ("devices", "DEVICE_NOT_FOUND"),
            ("slots", "SLOT_NOT_FOUND"),
        ):
            self.assert_refused(
                404, code, self.admin.show, kind, data_utils.rand_uuid()
            )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("abb9a370-f3cc-4af0-b0c7-1e2f450a0f8d")
    def test_bad_settings(self) -> None:
        host = self.admin.list("hosts")[0]
        path = ("hosts", host["uuid"])
        for members in (
            {},
            {"state": "broken"},
            {"state": "enabled", "colour": "red"},
            {"state": "draining", "drain_deadline_s": -1},
            {"reason": "only a reason"},
        ):
            self.assert_refused(
                400, "INVALID_REQUEST", self.admin.update, *path, **members
            )
        self.assertEqual(host["admin_state"], self.state_of(path))

    @decorators.attr(type="negative")
    @decorators.idempotent_id("ddcfcdc5-d729-47dd-88b1-24e77bfb2771")
    def test_members_change_nothing(self) -> None:
        device = self.admin.list("devices")[0]
        path = ("devices", device["id"])
        self.assert_refused(
            403, "FORBIDDEN", self.member.update, *path, state="disabled"
        )
        slot = self.admin.list("slots")[0]
        self.assert_refused(
            403,
            "FORBIDDEN",
            self.member.create,
            *("slots", slot["id"], "test"),
            test={},
        )
        self.assertEqual(device["admin_state"], self.state_of(path))

    def state_of(self, path: tuple[str, str]) -> object:
        found = self.admin.show(*path)
        return found[path[0].removesuffix("s")]["admin_state"]


@decorators.serial
class HardwareChangesTest(base.PoolTest):
    """Drains and self-tests."""

    feature = "hardware_changes"

    def setUp(self) -> None:
        super().setUp()
        self.device = next(
            one
            for one in self.admin.list("devices", state="up")
            if one["slots"]
        )
        self.path = ("devices", self.device["id"])

    def set_state(
        self, path: tuple[str, str], state: str, **more: object
    ) -> None:
        """Set a state until the end of the test."""
        self.addCleanup(self.admin.update, *path, state="enabled")
        self.admin.update(*path, state=state, **more)

    def shown(self) -> base.Document:
        found = self.admin.show(*self.path)["device"]
        return typing.cast(base.Document, found)

    @decorators.idempotent_id("f6390eb5-e4e7-4591-baaa-a878d15e490d")
    def test_drain_device(self) -> None:
        self.set_state(self.path, "draining", reason="tempest")
        self.wait_until(
            lambda: self.shown()["admin_state"] == "disabled",
            "the device is drained",
        )
        self.assertEqual("tempest", self.shown()["admin_reason"])
        session = self.open_session()
        seen = self.member.show("sessions", session["id"])["session"]
        if seen["placement"] is not None:
            self.assertNotEqual(
                (self.device["host_uuid"], self.device["name"]),
                (
                    self.admin.show("sessions", session["id"])["session"][
                        "placement"
                    ]["host_uuid"],
                    seen["placement"]["device"],
                ),
            )
        self.admin.update(*self.path, state="enabled")
        self.wait_session(session, "READY")
        self.assertEqual("up", self.shown()["state"])

    @decorators.idempotent_id("d7bc2762-29cc-4706-bbf9-217ffed6b3f6")
    def test_drain_with_a_deadline_moves_who_waits_for_a_client(self) -> None:
        session = self.open_ready()
        placed = self.admin.show("sessions", session["id"])["session"]
        (device,) = (
            one
            for one in self.admin.list(
                "devices", host=placed["placement"]["host_uuid"]
            )
            if one["name"] == placed["placement"]["device"]
        )
        path = ("devices", device["id"])
        self.set_state(path, "draining", drain_deadline_s=0)
        self.wait_until(
            lambda: (
                self.member.show("sessions", session["id"])["session"][
                    "generation"
                ]
                != session["generation"]
                or self.member.show("sessions", session["id"])["session"][
                    "state"
                ]
                == "QUEUED"
            ),
            "the session has lost its slot",
        )
        self.admin.update(*path, state="enabled")
        moved = self.wait_session(session, "READY")
        self.assertGreater(moved["generation"], session["generation"])

    @decorators.idempotent_id("9559d61d-0c5a-454d-ae62-a54b0542e5f5")
    def test_disable_host(self) -> None:
        path = ("hosts", self.device["host_uuid"])
        self.set_state(path, "disabled", reason="tempest")
        self.assertEqual("disabled", self.shown()["state"])
        self.assertEqual("enabled", self.shown()["admin_state"])
        self.admin.update(*path, state="enabled")
        self.assertEqual("up", self.shown()["state"])

    @decorators.idempotent_id("4927f2ce-0598-4035-b85a-f88e311b31da")
    def test_slot_passes_its_test(self) -> None:
        slot = self.admin.list("slots", device=self.device["id"])[0]
        self.admin.create("slots", slot["id"], "test", test={})

        def passed() -> bool:
            found = self.admin.show("slots", slot["id"])["slot"]
            return found["state"] == "idle" and not found["failures"]

        self.wait_until(passed, "the slot is idle again")

    @decorators.attr(type="negative")
    @decorators.idempotent_id("59795da4-ef05-4d6b-9d03-e3adf339de43")
    def test_slot_in_use_is_not_tested(self) -> None:
        session = self.open_ready()

        def holding() -> list[base.Document]:
            slots = self.admin.list("slots")
            return [one for one in slots if one["session_id"] == session["id"]]

        self.wait_until(holding, "the slot tells its session")
        (slot,) = holding()
        self.assert_refused(
            409,
            "SLOT_IN_USE",
            self.admin.create,
            *("slots", slot["id"], "test"),
            test={},
        )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("06603f8d-981a-4f86-a8cd-600c9838ec23")
    def test_more_reservable_slots_than_there_are(self) -> None:
        before = self.device["reservable_slots"]
        for count in (-1, self.device["slots"] + 1):
            self.assert_refused(
                400,
                "INVALID_REQUEST",
                self.admin.update,
                *self.path,
                reservable_slots=count,
            )
        self.assertEqual(before, self.shown()["reservable_slots"])
