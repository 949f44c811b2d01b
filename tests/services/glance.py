# SPDX-License-Identifier: Apache-2.0

"""A private Glance."""

from tests.services import keystone as keystone_service
from tests.services import mariadb
from tests.services import openstack
from tests.services import process


class Glance(openstack.WsgiService):
    """The image service, with a directory of files for images.

    :param workspace: where it lives and who cleans up after it.
    :param database: where it keeps its tables; has to run when it starts.
    :param keystone: whom it asks about tokens.
    """

    module = "glance.wsgi.api:application"
    # Its root answers with "300 Multiple Choices".
    probe_path = "/versions"

    def __init__(
        self,
        workspace: process.Keeper,
        database: mariadb.MariaDB,
        keystone: keystone_service.Keystone,
    ) -> None:
        super().__init__("glance", workspace)
        self._database = database
        self._config_path = self.directory / "glance-api.conf"
        openstack.write_config(
            self._config_path,
            {
                **self._options(),
                "keystone_authtoken": keystone.authtoken_options(self.name),
            },
        )

    def _options(self) -> openstack.Sections:
        database_url = self._database.database_url(self.name)
        stores = {
            section: {"filesystem_store_datadir": self.directory / name}
            for section, name in (
                ("files", "images"),
                # Under uWSGI these two have no defaults that work.
                ("os_glance_staging_store", "staging"),
                ("os_glance_tasks_store", "tasks"),
            )
        }
        paste = openstack.VENV / "etc" / "glance" / "glance-api-paste.ini"
        return {
            "DEFAULT": {
                "use_stderr": True,
                "enabled_backends": "files:file",
                "worker_self_reference_url": self.base_url,
            },
            "database": {"connection": database_url},
            "glance_store": {"default_backend": "files"},
            **stores,
            "paste_deploy": {"flavor": "keystone", "config_file": paste},
            "oslo_concurrency": {"lock_path": self.directory / "locks"},
        }

    def prepare(self) -> None:
        """Make tables; again is harmless.

        :raises ServiceError: if that fails.
        """
        openstack.create_database(
            self._database, self.name, self.prepared_path
        )
        config = ["--config-file", str(self._config_path)]
        self.manage("glance.cmd.manage", "glance-manage", [*config, "db_sync"])

    def register(self, accounts: openstack.Accounts) -> None:
        """Make its user and its entry in the catalog; again is harmless.

        :param accounts: of its Keystone, which has to run.
        """
        accounts.create_service_user(self.name)
        accounts.register_service(self.name, "image")
        accounts.register_endpoint(self.base_url, "image")
