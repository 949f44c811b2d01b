# SPDX-License-Identifier: Apache-2.0

"""Instances of Nova for tests, which need no network."""

from __future__ import annotations

import typing

from tempest import config
from tempest.common import waiters
from tempest.lib.common.utils import test_utils

from fpgapool_tempest_plugin import client
from fpgapool_tempest_plugin.tests import base

CONF = config.CONF

#: Nova refuses bad extra specs since then.
_MICROVERSION = "2.86"


class InstanceTest(base.PoolTest):
    """A test with flavors and instances, and one who asks in Nova's place.

    What runs in an instance is played by the test, with the instance's token:
    the instances' images are anything that boots.
    """

    feature = "instance_tokens"

    @classmethod
    def skip_checks(cls) -> None:
        super().skip_checks()
        if not CONF.service_available.nova:
            raise cls.skipException("[service_available] nova is off")

    @classmethod
    def setup_credentials(cls) -> None:
        cls.credentials = [
            *base.PoolTest.credentials,
            ["nova", CONF.fpgapool.vendordata_role],
        ]
        super().setup_credentials()

    @classmethod
    def setup_clients(cls) -> None:
        super().setup_clients()
        cls.nova = cls.client_of(cls.os_nova)
        cls.servers = cls.os_project_member.servers_client
        cls.admin_servers = cls.os_project_admin.servers_client
        cls.flavors = cls.os_project_admin.flavors_client

    @classmethod
    def resource_setup(cls) -> None:
        super().resource_setup()
        cls.setup_api_microversion_fixture(compute_microversion=_MICROVERSION)

    def make_flavor(self, **extra_specs: str) -> str:
        """Make a flavor as large as that of ``[compute] flavor_ref``.

        :returns: its id.
        """
        like = self.flavors.show_flavor(CONF.compute.flavor_ref)["flavor"]
        flavor = self.flavors.create_flavor(
            name=self.name("flavor"),
            **{name: like[name] for name in ("ram", "vcpus", "disk")},
        )["flavor"]
        self.addCleanup(self.flavors.delete_flavor, flavor["id"])
        self.flavors.set_flavor_extra_spec(flavor["id"], **extra_specs)
        return str(flavor["id"])

    def boot(self, **extra_specs: str) -> base.Document:
        """Boot an instance of a new flavor."""
        server = self.servers.create_server(
            name=self.name("instance"),
            flavorRef=self.make_flavor(**extra_specs),
            imageRef=CONF.compute.image_ref,
            networks="none",
        )["server"]
        self.addCleanup(self.destroy, server["id"])
        self.wait_status(server["id"], "ACTIVE")
        return self.shown(server["id"])

    def shown(self, server_id: str) -> base.Document:
        """Return an instance as administrators see it."""
        found = self.admin_servers.show_server(server_id)["server"]
        return typing.cast(base.Document, found)

    def wait_status(self, server_id: str, status: str) -> None:
        waiters.wait_for_server_status(self.admin_servers, server_id, status)

    def destroy(self, server_id: str) -> None:
        """Delete an instance, and wait until it is gone."""
        test_utils.call_and_ignore_notfound_exc(
            self.servers.delete_server, server_id
        )
        waiters.wait_for_server_termination(self.servers, server_id)

    def told(self, server: base.Document) -> base.Document:
        """Return what Nova tells an instance of the pool."""
        answer = self.nova.create(
            "vendordata",
            expected=200,
            **{
                "instance-id": server["id"],
                "project-id": server["tenant_id"],
                "hostname": server["name"],
            },
        )
        return typing.cast(base.Document, answer)

    def guest(self, server: base.Document) -> client.PoolClient:
        """Return a client as a program in an instance has it."""
        # Nothing while Nova is slow.
        self.wait_until(
            lambda: self.told(server).get("instance_token"),
            f"instance {server['id']} has a token",
        )
        return self.member.with_token(self.told(server)["instance_token"])
