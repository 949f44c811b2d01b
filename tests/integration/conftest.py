# SPDX-License-Identifier: Apache-2.0

"""Real services of OpenStack, started when the first test asks."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from collections.abc import Mapping

import openstack as sdk
import pytest
from openstack import connection as connections

from tests.harness import cloud as clouds
from tests.integration import server
from tests.services import glance as glance_service
from tests.services import keystone as keystone_service
from tests.services import mariadb as mariadb_service
from tests.services import nova as nova_service
from tests.services import openstack
from tests.services import placement as placement_service
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service
from tests.services import stack as stacks


@pytest.fixture(scope="session")
def stack(
    service_workspace: process.Workspace,
    rabbitmq: rabbitmq_service.RabbitMQ,
    mariadb: mariadb_service.MariaDB,
) -> stacks.Stack:
    """Give the run's own services of OpenStack, not yet running."""
    return stacks.Stack(service_workspace, rabbitmq, mariadb)


@pytest.fixture(scope="session")
def keystone(stack: stacks.Stack) -> keystone_service.Keystone:
    """Give the run's own Keystone, running."""
    stack.mariadb.ensure_running()
    stack.keystone.start()
    return stack.keystone


@pytest.fixture(scope="session")
def accounts(
    stack: stacks.Stack, keystone: keystone_service.Keystone
) -> openstack.Accounts:
    """Give what makes users and projects; fpgapool's own are there."""
    stack.accounts.create_fpgapool()
    return stack.accounts


@pytest.fixture(scope="session")
def admin(
    keystone: keystone_service.Keystone, accounts: openstack.Accounts
) -> connections.Connection:
    """Give what an administrator's commands use."""
    return sdk.connection.Connection(
        auth=keystone.auth_options("admin", "admin"),
        region_name=openstack.REGION,
    )


@pytest.fixture(scope="session")
def system_reader(
    keystone: keystone_service.Keystone,
    accounts: openstack.Accounts,
    admin: connections.Connection,
) -> Mapping[str, str]:
    """Give the options of a service whose user may read all of Keystone."""
    user = accounts.create_service_user("fpgapool-reader", "service")
    identity = admin.identity
    identity.assign_system_role_to_user(
        user.id, identity.find_role("reader").id, "all"
    )
    auth = keystone.auth_options(user.name, openstack.SERVICE_PROJECT)
    # It acts for the system, not for a project.
    for name in ("project_name", "project_domain_id"):
        del auth[name]
    return {"auth_type": "password", "system_scope": "all", **auth}


@pytest.fixture(scope="session")
def glance(stack: stacks.Stack) -> glance_service.Glance:
    """Give the run's own Glance, running."""
    stack.mariadb.ensure_running()
    stack.start(["glance"])
    return stack.glance


@pytest.fixture(scope="session")
def placement(stack: stacks.Stack) -> placement_service.Placement:
    """Give the run's own Placement, running."""
    stack.mariadb.ensure_running()
    stack.start(["placement"])
    return stack.placement


@pytest.fixture(scope="session")
def nova(stack: stacks.Stack) -> nova_service.Nova:
    """Give the run's own Nova, running, with computes that only pretend."""
    stack.rabbitmq.ensure_running()
    stack.mariadb.ensure_running()
    stack.start(["nova"])
    return stack.nova


@pytest.fixture(scope="session")
def personas(accounts: openstack.Accounts) -> openstack.Personas:
    """Give one user for each kind of rights that policies know."""
    return accounts.create_personas("persona")


@pytest.fixture(scope="package")
def cloud(
    service_workspace: process.Workspace,
    rabbitmq: rabbitmq_service.RabbitMQ,
    mariadb: mariadb_service.MariaDB,
) -> Iterator[clouds.Cloud]:
    """Give a pool with two slots."""
    rabbitmq.ensure_running()
    mariadb.ensure_running()
    with clouds.Cloud(
        service_workspace,
        rabbitmq.transport_url(rabbitmq.create_vhost()),
        mariadb.database_url(mariadb.create_database()),
        [clouds.HostPlan("board", slots=2)],
        options={"bitstreams": {"signature_required": False}},
    ) as pool:
        yield pool


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function,
) -> Iterator[None]:
    """Show what the pool's processes said when a test failed."""
    report = yield
    if report.failed and "cloud" in item.funcargs:
        for name, text in item.funcargs["cloud"].logs():
            report.sections.append((f"log of {name}", text))
    return report


@pytest.fixture(scope="package")
def api(
    cloud: clouds.Cloud,
    service_workspace: process.Workspace,
    keystone: keystone_service.Keystone,
    accounts: openstack.Accounts,
) -> Iterator[server.Server]:
    """Give the API, which the catalog knows."""
    served = server.Server(cloud, service_workspace, keystone)
    served.start()
    accounts.register_endpoint(f"http://{served.address}")
    yield served
    served.kill()


@pytest.fixture(scope="package")
def tokens(
    accounts: openstack.Accounts, personas: openstack.Personas
) -> Mapping[str, str]:
    """Give a token of each persona."""
    return {
        name: accounts.token(getattr(personas, name)).text
        for name in server.PERSONAS
    }


@pytest.fixture(scope="package")
def known_clouds(
    accounts: openstack.Accounts, personas: openstack.Personas
) -> Mapping[str, object]:
    """Give how a program reaches the pool: as a program, as each persona."""
    credential = accounts.create_application_credential(
        personas.member, "program", "member"
    )
    known: dict[str, object] = {
        server.CLOUD: {
            "auth_type": "v3applicationcredential",
            "auth": {
                "auth_url": accounts.auth_url,
                "application_credential_id": credential.id,
                "application_credential_secret": credential.secret,
            },
            "region_name": openstack.REGION,
        }
    }
    for name in server.PERSONAS:
        user: openstack.User = getattr(personas, name)
        known[name] = {
            "auth": {
                "auth_url": accounts.auth_url,
                "username": user.name,
                "password": user.password,
                "project_name": user.project.name,
                "user_domain_id": openstack.DOMAIN,
                "project_domain_id": openstack.DOMAIN,
            },
            "region_name": openstack.REGION,
        }
    return known


@pytest.fixture
def clouds_yaml(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    known_clouds: Mapping[str, object],
    api: server.Server,
) -> pathlib.Path:
    """Give the file that tells programs of the pool."""
    path = tmp_path / "clouds.yaml"
    # YAML is more than JSON.
    path.write_text(json.dumps({"clouds": known_clouds}))
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(path))
    return path
