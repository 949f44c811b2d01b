# SPDX-License-Identifier: Apache-2.0

"""A private Nova, with computes that only pretend to run servers."""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import hmac
import pathlib
import shutil
import time
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from tests.services import keystone as keystone_service
from tests.services import mariadb as mariadb_service
from tests.services import neutron_stub
from tests.services import openstack
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service

#: How many computes there are.
COMPUTES = 4
#: What the fake driver says that each of them has.
VCPUS = 1000
MICROVERSION = "2.100"

#: As doc/source/install/nova.rst tells operators.
FILTER_SCHEDULER: Mapping[str, str | tuple[str, ...]] = {
    "available_filters": (
        "nova.scheduler.filters.all_filters",
        "fpgapool_nova_filters.filters.FpgaAffinityFilter",
    ),
    # Those that Nova has by default, and ours.
    "enabled_filters": "ComputeFilter,ComputeCapabilitiesFilter"
    ",ImagePropertiesFilter,ServerGroupAntiAffinityFilter"
    ",ServerGroupAffinityFilter,FpgaAffinityFilter",
    "weight_classes": "nova.scheduler.weights.all_weighers"
    ",fpgapool_nova_filters.weights.FpgaAffinityWeigher",
}

_API = "nova.wsgi.osapi_compute:application"
_METADATA = "nova.wsgi.metadata:application"
_USER = "nova"
_VHOST = "nova"
_CELL = "nova_cell1"
_DATABASES = ("nova_api", "nova_cell0", _CELL)
# Without them, a cell can tell nothing that anybody asks.
_HIDDEN = ("compute_nodes", "instances", "services")
# Between Nova's metadata API and whoever forwards requests of servers.
_METADATA_SECRET = openstack.PASSWORD
_DISCOVERY_INTERVAL_S = 2
_START_LIMIT_S = 400
_POLL_INTERVAL_S = 0.3
_HTTP_LIMIT_S = 60
# Nova says much at debug, and takes time for it.
_LOG_LEVELS = (
    "amqp=WARNING,oslo.messaging=WARNING,oslo_messaging=WARNING,"
    "sqlalchemy=WARNING,alembic=WARNING,stevedore=WARNING,"
    "nova.service=DEBUG,fpgapool_nova_filters=DEBUG"
)
# Shorter than by default, for tests that stop fpgapool's API.
SNAPSHOT_TTL_S = 1
_SNAPSHOT_MAX_AGE_S = 12


def compute_name(number: int) -> str:
    """Return the name of a compute's host.

    :param number: from 1 on.
    """
    return f"compute{number}"


def provider_uuid(number: int) -> str:
    """Return the UUID of a compute's resource provider.

    :param number: of the compute, from 1 on.
    """
    return f"{number:08x}-0000-4000-8000-000000000000"


class _Neutron(process.Service):
    """What answers in the place of the network service."""

    def __init__(self, workspace: process.Keeper) -> None:
        super().__init__("neutron-stub", workspace)
        self.port = workspace.port("neutron-stub")
        self.base_url = f"http://{process.LOOPBACK}:{self.port}"

    def command(self) -> list[str]:
        """Return the command line."""
        script = str(pathlib.Path(neutron_stub.__file__))
        return [openstack.program("python"), "-I", script, str(self.port)]

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports that it listens on."""
        return (self.port,)

    def is_ready(self) -> bool:
        """Tell whether it accepts connections."""
        return not process.port_is_free(self.port)


class _Api(openstack.WsgiService):
    """One of Nova's two APIs; both have the same configuration.

    :param workspace: where it lives and who cleans up after it.
    :param config: where the configuration is; None means with the server.
    """

    def __init__(
        self,
        name: str,
        module: str,
        workspace: process.Keeper,
        config: pathlib.Path | None = None,
    ) -> None:
        super().__init__(name, workspace)
        self.module = module
        self._config = config or self.directory

    def environment(self) -> dict[str, str]:
        """Return the whole environment."""
        return {
            **super().environment(),
            "OS_NOVA_CONFIG_DIR": str(self._config),
            "OS_NOVA_CONFIG_FILES": "api-paste.ini;nova.conf;database.conf",
            # As it is by default, but for nova-manage.
            "OS_NOVA_DISABLE_EVENTLET_PATCHING": "1",
        }

    def prepare(self) -> None:
        """Do nothing: :meth:`Nova.prepare` makes the tables."""


class _ChangedApi(_Api):
    """One with more configuration than Nova's own."""

    def __init__(
        self,
        name: str,
        module: str,
        workspace: process.Keeper,
        config: pathlib.Path,
        options: openstack.Sections,
    ) -> None:
        super().__init__(name, module, workspace, config)
        self._options_path = self.directory / "changed.conf"
        openstack.write_config(self._options_path, options)

    def environment(self) -> dict[str, str]:
        """Return the whole environment."""
        variables = super().environment()
        name = "OS_NOVA_CONFIG_FILES"
        return {**variables, name: f"{variables[name]};{self._options_path}"}


class Daemon(process.Service):
    """One of Nova's services without an API.

    :param name: of the server, for its directory.
    :param workspace: where it lives and who cleans up after it.
    :param ready_text: what it logs when others may begin to use it; empty
        means that nobody waits for it.
    """

    def __init__(
        self,
        name: str,
        program: str,
        workspace: process.Keeper,
        config_paths: Sequence[pathlib.Path],
        ready_text: str = "",
    ) -> None:
        super().__init__(name, workspace)
        self._program = openstack.program(program)
        self.config_paths = list(config_paths)
        self.ready_text = ready_text
        self._log_start = 0

    def command(self) -> list[str]:
        """Return the command line."""
        files = [f"--config-file={path}" for path in self.config_paths]
        return [self._program, *files]

    def environment(self) -> dict[str, str]:
        """Return the whole environment."""
        return {**super().environment(), "HOME": str(self.directory)}

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports that it listens on: none."""
        return ()

    def start(self) -> None:
        """Start it; again is harmless.

        :raises ServiceError: if it fails to.
        """
        if not self.running:
            self._log_start = len(self.log())
        super().start()

    def is_ready(self) -> bool:
        """Tell whether there is nothing to wait for."""
        return self.ready_text in self.log()[self._log_start :]

    def log(self) -> str:
        """Return all that it has printed."""
        if not self.log_path.exists():
            return ""
        return self.log_path.read_text(errors="replace")


class Nova:
    """The compute service: two APIs, conductor, scheduler and computes.

    :param workspace: where it lives and who cleans up after it.
    :param rabbitmq: its broker; has to run when it starts.
    :param mariadb: where it keeps its tables; has to run when it starts.
    :param keystone: whom it asks about tokens, and who knows where Placement
        and Glance are; all three have to run when it starts.
    :param computes: how many that only pretend; see :meth:`add_compute`.
    """

    def __init__(
        self,
        workspace: process.Keeper,
        rabbitmq: rabbitmq_service.RabbitMQ,
        mariadb: mariadb_service.MariaDB,
        keystone: keystone_service.Keystone,
        computes: int = COMPUTES,
    ) -> None:
        self._rabbitmq = rabbitmq
        self._mariadb = mariadb
        self._keystone = keystone
        self._neutron = _Neutron(workspace)
        self._workspace = workspace
        self._api = _Api("nova", _API, workspace)
        self._metadata = _Api(
            "nova-metadata", _METADATA, workspace, self._api.directory
        )
        self.base_url = f"{self._api.base_url}/v2.1"
        self.metadata_url = self._metadata.base_url
        self._write_configuration()
        both = (self._config / "nova.conf", self._config / "database.conf")
        self.conductor = Daemon(
            "nova-conductor",
            "nova-conductor",
            workspace,
            both,
            # Computes that ask too early ask again ten seconds later.
            ready_text="Join ServiceGroup membership",
        )
        self.scheduler = Daemon(
            "nova-scheduler", "nova-scheduler", workspace, both
        )
        self.computes: list[Daemon] = []
        for _ in range(computes):
            self.add_compute({})

    @property
    def _config(self) -> pathlib.Path:
        return self._api.directory

    # Configuration.

    def _write_configuration(self) -> None:
        shutil.copy(
            openstack.VENV / "etc" / "nova" / "api-paste.ini", self._config
        )
        openstack.write_config(self._config / "nova.conf", self._options())
        api, _, cell = map(self._mariadb.database_url, _DATABASES)
        # Apart from the rest: a compute may not have it.
        openstack.write_config(
            self._config / "database.conf",
            {
                "api_database": {"connection": api},
                "database": {"connection": cell},
            },
        )

    def _options(self) -> openstack.Sections:
        client = {
            "auth_type": "password",
            **self._keystone.auth_options(_USER, openstack.SERVICE_PROJECT),
            "region_name": openstack.REGION,
        }
        return {
            **self._own_options(),
            "keystone_authtoken": self._keystone.authtoken_options(_USER),
            "service_user": {**client, "send_service_user_token": True},
            "placement": client,
            "keystone": client,
            "glance": {"region_name": openstack.REGION},
            "neutron": {
                **client,
                "service_metadata_proxy": True,
                "metadata_proxy_shared_secret": _METADATA_SECRET,
            },
            "fpgapool": {
                **client,
                "snapshot_ttl_s": SNAPSHOT_TTL_S,
                "snapshot_max_age_s": _SNAPSHOT_MAX_AGE_S,
            },
            "filter_scheduler": FILTER_SCHEDULER,
        }

    def _own_options(self) -> openstack.Sections:
        return {
            "DEFAULT": {
                "use_stderr": True,
                "default_log_levels": _LOG_LEVELS,
                "log_options": False,
                "my_ip": process.LOOPBACK,
                "host": "controller",
                "state_path": self._config / "state",
                "transport_url": self._rabbitmq.transport_url(_VHOST),
                "compute_driver": "fake.FakeDriverWithoutFakeNodes",
                # What is periodic begins at once: computes are found sooner.
                "periodic_fuzzy_delay": 0,
                "report_interval": 5,
                "service_down_time": 60,
                # Nothing here is worth being waited for at the end.
                "manager_shutdown_timeout": 1,
                "graceful_shutdown_timeout": 15,
                # What is shelved stays on its host until it is offloaded.
                "shelved_offload_time": -1,
                # Pretended memory and disk need no reserve.
                "reserved_host_memory_mb": 0,
                "initial_cpu_allocation_ratio": 1.0,
            },
            "conductor": {"workers": 1},
            "scheduler": {
                "workers": 1,
                "discover_hosts_in_cells_interval": _DISCOVERY_INTERVAL_S,
            },
            "quota": {"instances": -1, "cores": -1, "ram": -1},
            "vnc": {"enabled": False},
            "key_manager": {
                "backend": "nova.keymgr.conf_key_mgr.ConfKeyManager"
            },
            "oslo_concurrency": {"lock_path": self._config / "locks"},
            "oslo_messaging_notifications": {"driver": "noop"},
        }

    def add_compute(self, options: openstack.Sections) -> Daemon:
        """Make one more compute, which runs from the next start on.

        :param options: what its configuration says over the others'.
        """
        number = len(self.computes) + 1
        common = self._config / "nova.conf"
        name = f"nova-compute-{number}"
        made = Daemon(name, "nova-compute", self._workspace, [common])
        own = made.directory / "compute.conf"
        identity = {
            "host": compute_name(number),
            "state_path": made.directory,
        }
        openstack.write_config(
            own,
            {**options, "DEFAULT": {**options.get("DEFAULT", {}), **identity}},
        )
        # As an operator may: else Nova chooses one.
        (made.directory / "compute_id").write_text(provider_uuid(number))
        made.config_paths.append(own)
        self.computes.append(made)
        return made

    # Life.

    def services(self) -> list[process.Service]:
        """Return all servers, in the order in which they are started."""
        return [
            self._neutron,
            self.conductor,
            self.scheduler,
            *self.computes,
            self._api,
            self._metadata,
        ]

    def prepare(self) -> None:
        """Make tables and cells; again is harmless.

        :raises ServiceError: if that fails.
        """
        if self._is_prepared():
            return
        cell_made = self._config / "cell-made"
        for name in _DATABASES:
            openstack.create_database(self._mariadb, name, cell_made)
        cell0 = self._mariadb.database_url("nova_cell0")
        config = [
            f"--config-file={self._config / name}"
            for name in ("nova.conf", "database.conf")
        ]
        commands = [
            ["api_db", "sync"],
            ["cell_v2", "map_cell0", f"--database_connection={cell0}"],
            ["db", "sync"],
        ]
        if not cell_made.exists():
            # The only one that minds being repeated.
            commands.append(["cell_v2", "create_cell", "--name=cell1"])
        self._api.manage(
            "nova.cmd.manage",
            "nova-manage",
            *([*config, *command] for command in commands),
        )
        cell_made.touch()
        self._prepared.touch()

    @property
    def _prepared(self) -> pathlib.Path:
        return self._config / "tables-made"

    def _is_prepared(self) -> bool:
        return openstack.is_newer_than_programs(self._prepared)

    def start(self) -> None:
        """Start what does not run and wait until servers can be booted.

        Nova has to be known to Keystone: see :meth:`register`.

        :raises ServiceError: if it fails to.
        """
        self.prepare()
        self._rabbitmq.create_vhost(_VHOST)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            apis = [pool.submit(self._api.start)]
            for service in (self._neutron, self.conductor):
                service.start()
            self.scheduler.start()
            for compute in self.computes:
                compute.start()
            apis.append(pool.submit(self._metadata.start))
        for api in apis:
            api.result()
        self._await_computes()

    def wait_for_computes(self) -> None:
        """Wait until all computes are up, as Nova sees them.

        :raises ServiceError: if one does not come.
        """
        self._await_computes()

    def ensure_running(self) -> None:
        """Undo what a test did: resume and start where needed."""
        for service in self.services():
            service.resume()
        if not all(service.running for service in self.services()):
            self.start()

    def register(self, accounts: openstack.Accounts) -> None:
        """Make users and entries of the catalog; again is harmless.

        :param accounts: of its Keystone, which has to run.
        """
        accounts.create_role(openstack.VENDORDATA_ROLE)
        accounts.create_service_user(
            _USER, *openstack.SERVICE_ROLES, openstack.VENDORDATA_ROLE
        )
        for name, service_type, url in (
            ("nova", "compute", self.base_url),
            ("neutron", "network", self._neutron.base_url),
        ):
            accounts.register_service(name, service_type)
            accounts.register_endpoint(url, service_type)

    def _await_computes(self) -> None:
        token = self._admin_token()
        deadline_s = time.monotonic() + _START_LIMIT_S
        while len(self._computes_up(token)) < len(self.computes):
            for service in self.services():
                if not service.running:
                    raise process.ServiceError(
                        f"{service.name} has ended:\n{service.log_tail()}"
                    )
            if time.monotonic() > deadline_s:
                found = sorted(self._computes_up(token))
                raise process.ServiceError(f"Nova has only {found}")
            time.sleep(_POLL_INTERVAL_S)

    def _admin_token(self) -> openstack.Token:
        accounts = openstack.Accounts(self._keystone.auth_url)
        return accounts.token(accounts.admin())

    def _computes_up(self, token: openstack.Token) -> set[str]:
        # Without details: for those each compute would be asked, and the
        # answer would wait for one that has only just begun.
        answer = openstack.web_session().get(
            f"{self.base_url}/os-hypervisors",
            headers={
                **token.headers(),
                "OpenStack-API-Version": f"compute {MICROVERSION}",
            },
            timeout=_HTTP_LIMIT_S,
        )
        if answer.status_code != 200:
            raise openstack.RefusedError(answer)
        return {
            found["hypervisor_hostname"]
            for found in answer.json()["hypervisors"]
            if found["state"] == "up"
        }

    # For tests.

    def other_api(
        self, name: str, options: openstack.Sections
    ) -> openstack.WsgiService:
        """Return one more API, not running, that does something otherwise.

        :param options: what its configuration says over Nova's.
        """
        return _ChangedApi(name, _API, self._workspace, self._config, options)

    def other_metadata(
        self, name: str, options: openstack.Sections
    ) -> openstack.WsgiService:
        """Return one more metadata API: see :meth:`other_api`.

        :param options: what its configuration says over Nova's.
        """
        return _ChangedApi(
            name, _METADATA, self._workspace, self._config, options
        )

    @contextlib.contextmanager
    def cell_away(self) -> Iterator[None]:
        """Have the cell's database fail while the others answer."""
        with self._mariadb.cursor() as cursor:
            cursor.execute(_renaming("", "_away"))
            try:
                yield
            finally:
                cursor.execute(_renaming("_away", ""))

    # As the network service would, for a server that asks for metadata.

    def metadata_headers(
        self, server_id: str, project_id: str
    ) -> dict[str, str]:
        """Return what a forwarded request for metadata carries."""
        signature = hmac.new(
            _METADATA_SECRET.encode(), server_id.encode(), hashlib.sha256
        )
        return {
            "X-Forwarded-For": process.LOOPBACK,
            "X-Instance-ID": server_id,
            "X-Tenant-ID": project_id,
            "X-Instance-ID-Signature": signature.hexdigest(),
        }


def _renaming(old_end: str, new_end: str) -> str:
    steps = (
        f"{_CELL}.{table}{old_end} TO {_CELL}.{table}{new_end}"
        for table in _HIDDEN
    )
    return f"RENAME TABLE {', '.join(steps)}"
