# SPDX-License-Identifier: Apache-2.0

"""A private Keystone."""

import os

from tests.services import mariadb
from tests.services import openstack
from tests.services import process


class Keystone(openstack.WsgiService):
    """The identity service, with an administrator and the usual roles.

    :param workspace: where it lives and who cleans up after it.
    :param database: where it keeps its tables; has to run when it starts.
    """

    module = "keystone.wsgi.api:application"
    probe_path = "/v3"

    def __init__(
        self, workspace: process.Keeper, database: mariadb.MariaDB
    ) -> None:
        super().__init__("keystone", workspace)
        self._database = database
        self.auth_url = f"{self.base_url}/v3"
        self._config_path = self.directory / "keystone.conf"
        openstack.write_config(self._config_path, self._options())

    def allow_origin(self, origin: str) -> None:
        """Let pages of another origin ask it, from its next start on."""
        options = {**self._options(), "cors": {"allowed_origin": origin}}
        openstack.write_config(self._config_path, options)

    def _options(self) -> openstack.Sections:
        database_url = self._database.database_url(self.name)
        return {
            "DEFAULT": {"use_stderr": True},
            "database": {"connection": database_url},
            "token": {"provider": "fernet"},
            "fernet_tokens": {"key_repository": self.directory / "fernet"},
            "credential": {"key_repository": self.directory / "credential"},
            # The least that bcrypt does: these passwords are no secret.
            "identity": {"password_hash_rounds": 4},
        }

    def prepare(self) -> None:
        """Make tables, keys, administrator and roles; again is harmless.

        :raises ServiceError: if that fails.
        """
        openstack.create_database(
            self._database, self.name, self.prepared_path
        )
        config = ["--config-file", str(self._config_path)]
        owner = [
            f"--keystone-user={os.geteuid()}",
            f"--keystone-group={os.getegid()}",
        ]
        self.manage(
            "keystone.cmd.manage",
            "keystone-manage",
            [*config, "db_sync"],
            [*config, "fernet_setup", *owner],
            [*config, "credential_setup", *owner],
            [
                *config,
                "bootstrap",
                f"--bootstrap-password={openstack.PASSWORD}",
                f"--bootstrap-region-id={openstack.REGION}",
                f"--bootstrap-admin-url={self.auth_url}",
                f"--bootstrap-internal-url={self.auth_url}",
                f"--bootstrap-public-url={self.auth_url}",
            ],
        )

    def auth_options(self, user: str, project: str) -> dict[str, str]:
        """Return how clients are told to act as a user."""
        return {
            "auth_url": self.auth_url,
            "username": user,
            "password": openstack.PASSWORD,
            "project_name": project,
            "user_domain_id": openstack.DOMAIN,
            "project_domain_id": openstack.DOMAIN,
        }

    def authtoken_options(self, user: str) -> dict[str, str]:
        """Return the section ``[keystone_authtoken]`` of a service.

        :param user: name of the service's own user.
        """
        return {
            "www_authenticate_uri": self.auth_url,
            "auth_type": "password",
            **self.auth_options(user, openstack.SERVICE_PROJECT),
            "service_token_roles": "service",
            "service_token_roles_required": "true",
        }
