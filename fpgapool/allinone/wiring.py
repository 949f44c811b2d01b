# SPDX-License-Identifier: Apache-2.0

"""Create and configure the services of an all-in-one pool."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from concurrent import futures

import yaml
from oslo_config import cfg

from fpgapool.accelerators import base as accelerators
from fpgapool.agent import service as agent_service
from fpgapool.agent import settings as agent_settings
from fpgapool.allinone import directories as allinone_directories
from fpgapool.common import config
from fpgapool.common import exception
from fpgapool.common import memory
from fpgapool.conf import default as default_conf
from fpgapool.db import api as db_api
from fpgapool.db import migration
from fpgapool.drivers import base as drivers
from fpgapool.drivers import loader

PROGRAM = "fpgapool-allinone"
PROJECT_ID = "default"
EMULATOR = "emulator"
OPENCL = "opencl"
TRANSPORT_URL = f"{memory.SCHEME}://"
DATA_ADDRESS = "127.0.0.1"

NIC_BYTES_PER_S = 1.25e9
DMA_BYTES_PER_S = 2.1e9
PROGRAMMING_TIME_S = 0.05
WAIT_S_PER_BYTE = 1e-8
#: Maximum value of the option.
LONGEST_WAIT_S_PER_BYTE = 0.1

#: How long a worker lives if this process ends before contacting it.
WORKER_ORPHAN_S = 10

#: Where the REST API listens: only on this machine, as there is no
#: authentication.
API_ADDRESS = "127.0.0.1"

MAX_HOSTS = 64
MAX_SLOTS = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cluster:
    """The emulated cluster. Hosts get boards in turn.

    :ivar slots: number of slots of each board or OpenCL device.
    :ivar rate_scale: scale factor for modelled rates; None means unlimited.
    :ivar driver: driver of the hosts with boards. All drivers except the
        emulator discover their own boards and slots.
    """

    hosts: int = 5
    boards: int = 3
    slots: int = 4
    rate_scale: float | None = 1.0
    driver: str = EMULATOR

    def __post_init__(self) -> None:
        if not 1 <= self.hosts <= MAX_HOSTS:
            raise _invalid(
                f"the number of hosts must be from 1 to {MAX_HOSTS}"
            )
        if self.boards < 1 or self.slots < 1:
            raise _invalid("there must be at least one board with one slot")
        if self.boards * self.slots > MAX_SLOTS:
            raise _invalid(
                f"{self.boards} boards with {self.slots} slots each exceed the"
                f" limit of {MAX_SLOTS} slots; each slot is a process"
            )
        if self.rate_scale is not None and not 1e-6 <= self.rate_scale <= 1e6:
            raise _invalid("the rate scale must be from 1e-6 to 1e6")

    def host_names(self) -> list[str]:
        return [f"node{number}" for number in range(1, self.hosts + 1)]

    def boards_of(self, host_name: str) -> int:
        index = self.host_names().index(host_name)
        return len(range(index, self.boards, self.hosts))

    def rates_text(self) -> str:
        """Return how its rates differ from those of boards; empty: not."""
        if self.driver != EMULATOR or self.rate_scale == 1.0:
            return ""
        if self.rate_scale is None:
            return "rates unlimited"
        return f"rates scaled by {self.rate_scale:g}"

    def slot_count(self) -> int:
        """Return the number of slots, or 1 if the driver discovers them."""
        if self.driver != EMULATOR:
            return 1
        return self.boards * self.slots


#: Model of the emulated boards; a scale of the rates follows.
EMULATED = "emulated"
# What descriptions of accelerators say of the rates of a pool.
_RATES = re.compile(r" \(rates [^()]*\)$")


def _invalid(reason: str) -> exception.ConfigurationError:
    return exception.ConfigurationError(reason=reason)


def configure(
    cluster: Cluster,
    where: allinone_directories.Directories,
    *,
    strategy: str | None = None,
    config_files: Sequence[str] = (),
    verbose: bool = False,
) -> cfg.ConfigOpts:
    """Prepare configuration, log and database.

    :param strategy: scheduling strategy; None means the configured one.
    :param config_files: files to read; the pool's own file overrides them.
    :param verbose: log to standard error instead of to a file.
    :raises ConfigurationError: if an option or file is invalid.
    :raises DatabaseError: if the database cannot be prepared.
    """
    arguments = _arguments(where, config_files, verbose)
    conf = config.init(PROGRAM, arguments)
    _prepare_database(conf, cluster.rates_text())
    _set_defaults(conf, cluster.rate_scale or 1.0)
    if strategy is not None:
        conf.set_override("strategy", strategy, group="conductor")
    return conf


def _set_defaults(conf: cfg.ConfigOpts, rate_scale: float) -> None:
    """Replace defaults meant for clouds; configuration files override them."""
    for name, value in {
        "data_address": DATA_ADDRESS,
        "tls": False,
        "nic_bytes_per_s": NIC_BYTES_PER_S * rate_scale,
    }.items():
        conf.set_default(name, value, group="agent")
    # The pool has a single user.
    for resource in (
        "sessions",
        "queued_bytes",
        "live_per_user",
        "sessions_per_user",
        "bitstream_bytes",
        "groups",
        "group_slots",
        "group_clients",
        "max_priority",
    ):
        conf.set_default(resource, -1, group="quota")
    # The pool's API, if any, stores its files on this machine.
    conf.set_default("source", "file", group="bitstream_cache")
    # Do not require signatures: all users of the pool may do everything.
    conf.set_default("signature_required", False, group="bitstreams")
    # The benefit of waiting for a local slot depends on the rates.
    conf.set_default(
        "wait_s_per_byte",
        min(WAIT_S_PER_BYTE / rate_scale, LONGEST_WAIT_S_PER_BYTE),
        group="scheduler",
    )


def _arguments(
    where: allinone_directories.Directories,
    config_files: Sequence[str],
    verbose: bool,
) -> list[str]:
    wiring = where.config_dir() / "allinone.conf"
    wiring.write_text(_wiring(where.state_dir, verbose))
    arguments = []
    for path in (*config_files, wiring):
        arguments += ["--config-file", str(path)]
    # Naming a directory excludes the machine's own configuration: this pool
    # must never use the database of a production pool.
    arguments += ["--config-dir", str(where.config_dir())]
    if not verbose:
        arguments += ["--log-file", str(where.log_file())]
    return arguments


def _wiring(state_dir: pathlib.Path, verbose: bool) -> str:
    # Escape dollar signs: in oslo.config, they refer to other options.
    state_path = str(state_dir).replace("$", "$$")
    return f"""\
[DEFAULT]
state_path = {state_path}
transport_url = {TRANSPORT_URL}
use_stderr = {verbose}

[database]
connection = sqlite:///{state_path}/fpgapool.sqlite

[conductor]
name = allinone

[agent]
workers_outlive_agent = false
worker_orphan_s = {WORKER_ORPHAN_S}
"""


def _prepare_database(conf: cfg.ConfigOpts, rates: str) -> None:
    """Create or migrate the tables, and add the built-in accelerators.

    :param rates: what their descriptions say of the rates; may be empty.
    """
    database = db_api.Database.from_conf(conf, read_timeout_s=None)
    try:
        migration.sync(database.engine, "head")
        present = {one.name: one for one in database.accelerators()}
        changed = []
        for name, profile in accelerators.load_profiles().items():
            own = profile.description
            record = present.get(name) or db_api.AcceleratorRecord(
                name=name, profile=dataclasses.asdict(profile)
            )
            before = record.profile["description"]
            described = f"{own} ({rates})" if rates else own
            # Do not overwrite accelerators: a user may have adapted them.
            if name not in present or (
                before != described and _RATES.sub("", before) == own
            ):
                adapted = {**record.profile, "description": described}
                changed.append(dataclasses.replace(record, profile=adapted))
        database.upsert_accelerators(changed)
    finally:
        database.close()


def make_agents(
    cluster: Cluster,
    where: allinone_directories.Directories,
    conf: cfg.ConfigOpts,
    *,
    verbose: bool = False,
) -> dict[str, agent_service.Agent]:
    """Make an agent for every host; RPC must have been set up."""
    made = {}
    for name in cluster.host_names():
        settings = agent_settings.AgentSettings.from_conf(
            conf,
            host_name=name,
            host_uuid=default_conf.default_host_uuid(name),
            state_path=str(where.host_state_dir(name)),
            front_door_sockets={PROJECT_ID: str(where.front_door(name))},
            log_dir=None if verbose else _worker_log_dir(where, name),
            **_driver(cluster, where, conf, name),
        )
        made[name] = agent_service.make(settings)
    return made


def _worker_log_dir(
    where: allinone_directories.Directories, host_name: str
) -> str:
    # Use a directory per host: workers of different hosts have the same names.
    path = where.log_dir() / host_name
    path.mkdir(mode=0o700, exist_ok=True)
    return str(path)


def _driver(
    cluster: Cluster,
    where: allinone_directories.Directories,
    conf: cfg.ConfigOpts,
    host_name: str,
) -> dict[str, object]:
    boards = cluster.boards_of(host_name)
    name = cluster.driver if boards else "noop"
    path = loader.driver_path(name)
    if name == EMULATOR:
        driver_settings = _emulator(cluster, where, host_name, boards)
    else:
        driver_settings = agent_settings.options_of_driver(conf, name, path)
    if name == OPENCL:
        driver_settings |= _opencl(
            cluster, where, host_name, driver_settings["boards_file"]
        )
    return {
        "driver_name": name,
        "driver_path": path,
        "driver_settings": driver_settings,
    }


def _emulator(
    cluster: Cluster,
    where: allinone_directories.Directories,
    host_name: str,
    boards: int,
) -> dict[str, object]:
    # Workers may read all of its directory.
    path = where.config_dir() / "boards" / f"{host_name}.yaml"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(yaml.safe_dump(_boards(cluster, boards)))
    return {
        "boards_file": str(path),
        # The hosts share one network, so their boards share a model of it.
        "cluster_dir": str(where.state_dir / "cluster"),
    }


def _opencl(
    cluster: Cluster,
    where: allinone_directories.Directories,
    host_name: str,
    boards_file: str | None,
) -> dict[str, object]:
    """Use the devices in the boards file or, without one, all on this machine.

    All hosts with boards have the same devices.
    """
    if not boards_file:
        path = where.config_dir() / f"{host_name}-devices.yaml"
        board = {"name": "board0", "slots": cluster.slots}
        path.write_text(yaml.safe_dump({"boards": [board]}))
        boards_file = str(path)
    return {
        "boards_file": boards_file,
        # Compile a device's kernels once, not once for each host.
        "binaries_dir": str(where.state_dir / "binaries"),
        "is_checked": host_name != cluster.host_names()[0],
    }


def _boards(cluster: Cluster, count: int) -> dict[str, object]:
    scale: dict[str, object] = {"unlimited": True}
    model = f"{EMULATED}-unlimited"
    if cluster.rate_scale is not None:
        scale = {"rate_scale": cluster.rate_scale}
        # Names have no plus sign.
        factor = f"{cluster.rate_scale:g}".replace("+", "")
        model = f"{EMULATED}-x{factor}"
    if not cluster.rates_text():
        model = EMULATED
    boards = [
        {
            "name": f"board{number}",
            "model": model,
            "dma_bytes_per_s": DMA_BYTES_PER_S,
            "programming_time_s": PROGRAMMING_TIME_S,
            "slots": cluster.slots,
        }
        for number in range(count)
    ]
    return {**scale, "nic_bytes_per_s": NIC_BYTES_PER_S, "boards": boards}


class Agents:
    """All agents; a service of the process.

    :param on_start: called with the name of each host when its agent starts.
    """

    def __init__(
        self,
        agents: Mapping[str, agent_service.Agent],
        on_start: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._by_host = agents
        self._agents = list(agents.values())
        self._on_start = on_start

    def start(self) -> None:
        """Start the agents, one after the other.

        :raises: as :meth:`fpgapool.agent.service.Agent.start`.
        """
        for name, agent in self._by_host.items():
            self._on_start(name)
            agent.start()

    def figures(self) -> dict[str, object]:
        """Return each agent's figures."""
        return {name: one.figures() for name, one in self._by_host.items()}

    def fault(self) -> str | None:
        """Return why a host's boards cannot be used.

        :returns: None while every host with boards has one that may work.
        """
        of_hosts = [agent.faults for agent in self._agents if agent.faults]
        for faults in of_hosts:
            causes = faults.values()
            if all(causes) and drivers.UNANSWERED not in causes:
                causes_by_board = (
                    f"{name}: {cause}" for name, cause in faults.items()
                )
                return f"no usable boards: {'; '.join(causes_by_board)}"
        return None if of_hosts else "the driver found no boards"

    def stop(self) -> None:
        """Stop all agents at the same time, because each waits for workers."""
        with futures.ThreadPoolExecutor(len(self._agents)) as executor:
            for stopped in [
                executor.submit(agent.stop) for agent in self._agents
            ]:
                stopped.result()


class Links:
    """A service that creates the link at the conventional socket path.

    :param host_name: the host whose front door it links to.
    """

    def __init__(
        self, where: allinone_directories.Directories, host_name: str
    ) -> None:
        self._target = where.front_door(host_name)
        self._link = where.default_front_door()

    def start(self) -> None:
        allinone_directories.point_to(self._target, self._link)

    def stop(self) -> None:
        self._link.unlink(missing_ok=True)
