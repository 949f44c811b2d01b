# SPDX-License-Identifier: Apache-2.0

"""Instances that reserve slots, and take them along when they move."""

from __future__ import annotations

import typing

from tempest import config
from tempest.common import utils
from tempest.lib import decorators

from fpgapool_tempest_plugin import client
from fpgapool_tempest_plugin import data
from fpgapool_tempest_plugin.tests import base
from fpgapool_tempest_plugin.tests.scenario import instances

CONF = config.CONF

SLOT = "CUSTOM_FPGAPOOL_SLOT"


@decorators.serial
class SlotReservationTest(instances.InstanceTest):
    """Two boards offer a slot each."""

    feature = "slot_reservation"

    @classmethod
    def skip_checks(cls) -> None:
        super().skip_checks()
        for feature in ("hardware_changes", "instance_tokens"):
            if not CONF.fpgapool_feature_enabled[feature]:
                raise cls.skipException(
                    f"[fpgapool-feature-enabled] {feature} is off"
                )
        if CONF.compute.min_compute_nodes < 2:
            raise cls.skipException("[compute] min_compute_nodes is below 2")

    @classmethod
    def setup_clients(cls) -> None:
        super().setup_clients()
        cls.providers = cls.os_project_admin.resource_providers_client
        cls.hypervisors = cls.os_project_admin.hypervisor_client

    def setUp(self) -> None:
        super().setUp()
        computes = self.compute_uuids()
        offered: dict[str, base.Document] = {}
        for device in self.admin.list("devices", state="up"):
            if device["host_uuid"] in computes:
                offered.setdefault(device["host_uuid"], device)
        self.assertGreaterEqual(
            len(offered), 2, "boards on two compute nodes are needed"
        )
        self.devices = list(offered.values())[:2]
        for device in self.devices:
            self.offer(device)
        self.specs = {
            f"resources:{SLOT}": "1",
            "fpgapool:accelerators": CONF.fpgapool.accelerator,
        }

    def compute_uuids(self) -> set[str]:
        found = self.hypervisors.list_hypervisors()["hypervisors"]
        return {str(one["id"]) for one in found if one["state"] == "up"}

    def offer(self, device: base.Document) -> None:
        """Offer one slot of a board until the end of the test."""
        self.addCleanup(self.take_back, device)
        self.admin.update(
            *("devices", device["id"]),
            reservable_slots=device["reserved_slots"] + 1,
        )
        self.wait_until(
            lambda: self.total(device) == device["reserved_slots"] + 1,
            f"Placement knows of the slot of {device['name']}",
        )

    def take_back(self, device: base.Document) -> None:
        """Offer as many slots as before."""

        def is_released() -> bool:
            now = self.admin.show("devices", device["id"])["device"]
            return bool(now["reserved_slots"] == device["reserved_slots"])

        self.wait_until(is_released, f"{device['name']} is as before")
        self.admin.update(
            *("devices", device["id"]),
            reservable_slots=device["reservable_slots"],
        )
        self.wait_until(
            lambda: self.total(device) == device["reservable_slots"],
            f"Placement knows of the end of that of {device['name']}",
        )

    def total(self, device: base.Document) -> int:
        """Return how many slots of a board Placement has."""
        found = self.providers.list_resource_provider_inventories(device["id"])
        return int(found["inventories"].get(SLOT, {"total": 0})["total"])

    def holds(self, server: base.Document) -> list[str]:
        """Return the hosts whose slots an instance holds."""
        return [
            slot["host_uuid"]
            for device in self.devices
            for slot in self.admin.list("slots", device=device["id"])
            if slot["reserved_for"] == server["id"]
        ]

    def wait_holds(self, server: base.Document, *hosts: str) -> None:
        self.wait_until(
            lambda: sorted(self.holds(server)) == sorted(hosts),
            f"{server['id']} holds slots of {hosts}",
        )

    def host_of(self, server: base.Document) -> str:
        """Return the UUID of an instance's compute node."""
        name = self.shown(server["id"])["OS-EXT-SRV-ATTR:hypervisor_hostname"]
        (found,) = [
            one["id"]
            for one in self.hypervisors.list_hypervisors()["hypervisors"]
            if one["hypervisor_hostname"] == name
        ]
        return str(found)

    def listed_host(self, server: base.Document) -> str | None:
        """Return from where sessions of an instance count."""
        (found,) = [
            one
            for one in self.admin.list(
                "instances", all_projects=True, project_id=self.project_id
            )
            if one["id"] == server["id"]
        ]
        return typing.cast("str | None", found["host_uuid"])

    def start(
        self, server: base.Document
    ) -> tuple[client.PoolClient, data.Stream, base.Document]:
        """Begin to move data in an instance."""
        guest = self.guest(server)
        stream = data.Stream(self.member, token=str(guest.own_token))
        self.addCleanup(stream.abort)
        stream.send(len(data.INPUT) // 4)
        (session,) = guest.list("sessions")
        return guest, stream, self.wait_session(session, "ACTIVE", guest)

    @utils.services("compute", "image")
    @decorators.idempotent_id("7db41ace-1627-424f-b56c-23613ffda022")
    def test_slot_is_held_for_the_life_of_the_instance(self) -> None:
        server = self.boot(**self.specs)
        host = self.host_of(server)
        self.wait_holds(server, host)
        guest, stream, session = self.start(server)
        stream.finish()
        self.wait_session(session, "CLOSED", guest)
        self.destroy(server["id"])
        self.wait_holds(server)

    @utils.services("compute", "image")
    @decorators.idempotent_id("41113c09-b051-4c8c-aba5-0fd66f77de40")
    def test_move_takes_the_slot_along(self) -> None:
        server = self.boot(**self.specs)
        old = self.host_of(server)
        self.wait_holds(server, old)
        guest, stream, session = self.start(server)
        self.admin_servers.migrate_server(server["id"])
        self.wait_status(server["id"], "VERIFY_RESIZE")
        new = self.host_of(server)
        self.assertNotEqual(old, new)
        # Both are held until the move is confirmed.
        self.wait_holds(server, old, new)
        stream.send(len(data.INPUT) // 4)
        self.admin_servers.confirm_resize_server(server["id"])
        self.wait_status(server["id"], "ACTIVE")
        self.wait_holds(server, new)
        self.wait_until(
            lambda: self.listed_host(server) == new,
            f"sessions of {server['id']} count as from {new}",
        )
        # The session has not noticed.
        now = guest.show("sessions", session["id"])["session"]
        self.assertEqual(
            (session["generation"], "ACTIVE"),
            (now["generation"], now["state"]),
        )
        stream.finish()
        self.wait_session(session, "CLOSED", guest)

    @utils.services("compute", "image")
    @decorators.idempotent_id("b939869b-a7ea-4efe-827c-170594dc1bd2")
    def test_move_that_is_taken_back(self) -> None:
        server = self.boot(**self.specs)
        old = self.host_of(server)
        self.admin_servers.migrate_server(server["id"])
        self.wait_status(server["id"], "VERIFY_RESIZE")
        self.wait_holds(server, old, self.host_of(server))
        self.admin_servers.revert_resize_server(server["id"])
        self.wait_status(server["id"], "ACTIVE")
        self.assertEqual(old, self.host_of(server))
        self.wait_holds(server, old)

    @utils.services("compute", "image")
    @decorators.idempotent_id("1b6cea64-24a2-4c6d-a3fd-840ad8ec13da")
    def test_resize_to_a_flavor_without_a_slot(self) -> None:
        server = self.boot(**self.specs)
        self.wait_holds(server, self.host_of(server))
        _, stream, _ = self.start(server)
        plain = self.make_flavor(
            **{"fpgapool:accelerators": CONF.fpgapool.accelerator}
        )
        self.servers.resize_server(server["id"], plain)
        self.wait_status(server["id"], "VERIFY_RESIZE")
        self.servers.confirm_resize_server(server["id"])
        self.wait_status(server["id"], "ACTIVE")
        self.wait_holds(server)
        stream.finish()
