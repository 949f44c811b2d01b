# SPDX-License-Identifier: Apache-2.0

"""A private Placement."""

from tests.services import keystone as keystone_service
from tests.services import mariadb
from tests.services import openstack
from tests.services import process

#: How often Placement tries to write what others change, too: by default, and
#: as doc/source/install/nova.rst recommends where slots are reserved, since
#: else it gives the same twice.
DEFAULT_TRIES, RECOMMENDED_TRIES = 10, 1


class Placement(openstack.WsgiService):
    """The service that knows who has which resources.

    :param workspace: where it lives and who cleans up after it.
    :param database: where it keeps its tables; has to run when it starts.
    :param keystone: whom it asks about tokens.
    :param tries: how often it tries to write what others change, too.
    """

    module = "placement.wsgi.api:application"

    def __init__(
        self,
        workspace: process.Keeper,
        database: mariadb.MariaDB,
        keystone: keystone_service.Keystone,
        tries: int = RECOMMENDED_TRIES,
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
                "placement": {"allocation_conflict_retry_count": tries},
                "keystone_authtoken": keystone.authtoken_options(self.name),
            },
        )

    def prepare(self) -> None:
        """Make tables; again is harmless.

        :raises ServiceError: if that fails.
        """
        openstack.create_database(
            self._database, self.name, self.prepared_path
        )
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
