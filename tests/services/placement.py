#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.


"""A private Placement."""

from tests.services import keystone as keystone_service
from tests.services import mariadb
from tests.services import openstack
from tests.services import process


class Placement(openstack.WsgiService):
    """The service that knows who has which resources.

    :param workspace: where it lives and who cleans up after it.
    :param database: where it keeps its tables; has to run when it starts.
    :param keystone: whom it asks about tokens.
    """

    module = "placement.wsgi.api:application"

    def __init__(
        self,
        workspace: process.Keeper,
        database: mariadb.MariaDB,
        keystone: keystone_service.Keystone,
    ) -> None:
        super().__init__("placement", workspace)
        self._database = database
        openstack.write_config(
            self.directory / "placement.conf",
            {
                "DEFAULT": {"use_stderr": True},
                "placement_database": {
                    "connection": database.database_url(self.name)
                },
                # As doc/source/nova.rst recommends: else Placement gives the
                # same twice.
                "placement": {"allocation_conflict_retry_count": 1},
                "keystone_authtoken": keystone.authtoken_options(self.name),
            },
        )

    def prepare(self) -> None:
        """Make tables; again is harmless.

        :raises ServiceError: if that fails.
        """
        openstack.create_database(self._database, self.name)
        self.manage(
            "placement.cmd.manage",
            "placement-manage",
            ["--config-dir", str(self.directory), "db", "sync"],
        )

    def register(self, accounts: openstack.Accounts) -> None:
        """Make its user and its entry in the catalog; again is harmless.

        :param accounts: of its Keystone, which has to run.
        """
        accounts.create_service_user(self.name)
        accounts.register_service(self.name, "placement")
        accounts.register_endpoint(self.base_url, "placement")
