# SPDX-License-Identifier: Apache-2.0

"""The REST API with tokens of a real Keystone."""

from __future__ import annotations

from tests.functional.api import harness
from tests.harness import cloud as clouds
from tests.services import keystone as keystone_service
from tests.services import openstack
from tests.services import process

#: In clouds.yaml, with an application credential of the member. The personas
#: are there, too, with their passwords.
CLOUD = "pool"

PERSONAS = (
    *("reader", "member", "manager", "stranger"),
    *("service", "agent", "nova", "admin"),
)


class Server(harness.Server):
    """The API with Keystone.

    :param keystone: whom it asks about tokens.
    :param name: for its directory and for messages.
    """

    def __init__(
        self,
        cloud: clouds.Cloud,
        workspace: process.Workspace,
        keystone: keystone_service.Keystone,
        name: str = "keystone-api",
    ) -> None:
        super().__init__(name, cloud, workspace)
        openstack.write_config(
            self.config_path,
            {
                "DEFAULT": {"state_path": self.directory},
                "api": {"auth_strategy": "keystone", "wait_interval_s": 0.05},
                "bitstreams": {"signature_required": False},
                # The instance of a test asks faster than a guest may.
                "vendordata": {"burst": 1000},
                "keystone_authtoken": keystone.authtoken_options("fpgapool"),
            },
        )
