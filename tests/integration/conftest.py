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


"""Real services of OpenStack, started when the first test asks."""

import pytest

from tests.services import glance as glance_service
from tests.services import keystone as keystone_service
from tests.services import mariadb as mariadb_service
from tests.services import openstack
from tests.services import process


@pytest.fixture(scope="session")
def keystone(
    service_workspace: process.Workspace,
    mariadb: mariadb_service.MariaDB,
) -> keystone_service.Keystone:
    """Give the run's own Keystone, running."""
    mariadb.ensure_running()
    service = keystone_service.Keystone(service_workspace, mariadb)
    service.start()
    return service


@pytest.fixture(scope="session")
def accounts(keystone: keystone_service.Keystone) -> openstack.Accounts:
    """Give what makes users and projects; fpgapool's own are there."""
    made = openstack.Accounts(keystone.auth_url)
    made.create_fpgapool()
    return made


@pytest.fixture(scope="session")
def glance(
    service_workspace: process.Workspace,
    mariadb: mariadb_service.MariaDB,
    keystone: keystone_service.Keystone,
    accounts: openstack.Accounts,
) -> glance_service.Glance:
    """Give the run's own Glance, running."""
    mariadb.ensure_running()
    service = glance_service.Glance(service_workspace, mariadb, keystone)
    service.start()
    service.register(accounts)
    return service


@pytest.fixture(scope="session")
def personas(accounts: openstack.Accounts) -> openstack.Personas:
    """Give one user for each kind of rights that policies know."""
    return accounts.create_personas("persona")
