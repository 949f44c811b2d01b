# SPDX-License-Identifier: Apache-2.0

"""The DevStack plugin, phase by phase, over stand-ins of DevStack."""

import copy
import hashlib
import re
import shlex
import subprocess
import tomllib

import pytest
from keystoneauth1 import loading
from oslo_config import cfg
from oslo_config import generator

from fpgapool.agent.supervision import processes
from fpgapool.api import app
from fpgapool.api.http import rights
from fpgapool.clients import glance
from fpgapool.clients import nova
from fpgapool.clients import placement
from fpgapool.cmd import manage
from fpgapool.common.messaging import signing
from fpgapool.conf import nova as nova_conf
from fpgapool.conf import placement as placement_conf
from fpgapool.drivers.emulator import boards
from fpgapool.drivers.emulator import driver
from fpgapool.privsep import link
from fpgapool.rpcapi import permissions
from tests.functional.devstack import harness
from tests.harness import sudoers

GENERATOR_CONF = harness.ROOT / "etc/fpgapool/fpgapool-config-generator.conf"
OURS = ("fpgapool-api", "fpgapool-cond", "fpgapool-agent")
PROJECT = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def sandbox(tmp_path):
    """Give a directory in which DevStack seems to be at work."""
    return harness.Sandbox(tmp_path)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Give an all-in-one node, stacked, and the calls; change nothing."""
    sandbox = harness.Sandbox(tmp_path_factory.mktemp("plain"))
    return sandbox, sandbox.stack(harness.ALL_IN_ONE)


def _namespaces() -> list[str]:
    conf = cfg.ConfigOpts()
    generator.register_cli_opts(conf)
    conf(["--config-file", str(GENERATOR_CONF)], default_config_files=[])
    return conf.namespace


@pytest.fixture(scope="module")
def known() -> list:
    """Give all options that our services know, with their groups."""
    found = []
    for _namespace, groups in generator._list_opts(_namespaces()):
        found += [(str(group or "DEFAULT"), opts) for group, opts in groups]
    password = [
        *loading.get_session_conf_options(),
        *loading.get_adapter_conf_options(),
        *loading.get_auth_common_conf_options(),
        *loading.get_auth_plugin_conf_options("password"),
    ]
    clients = ("glance", "keystone_authtoken", "nova", "placement")
    found += [(group, password) for group in clients]
    return found


def _parse(path, known) -> cfg.ConfigOpts:
    """Read a file, with an error for an unknown option or a bad value."""
    conf = cfg.ConfigOpts()
    for group, options in known:
        for option in copy.deepcopy(options):
            # Which it is depends on others, such as the kind of credentials.
            option.required = False
            try:
                conf.register_opt(
                    option, group=None if group == "DEFAULT" else group
                )
            except cfg.DuplicateOptError:
                # Known from another list of the same library.
                assert group in conf or group == "DEFAULT"
    conf(["--config-file", str(path)], default_config_files=[])
    for section, options in harness.read(path).items():
        values = conf if section == "DEFAULT" else conf[section]
        for name in options:
            if section != "DEFAULT" and name in harness.read(path)["DEFAULT"]:
                continue
            # Raises if it is not known, or its value is not allowed.
            values[name.replace("-", "_")]
    return conf


def test_all_in_one_calls_in_order(plain):
    sandbox, calls = plain
    wanted = [
        ["phase", "stack", "install"],
        ["setup_develop", str(harness.ROOT)],
        ["phase", "stack", "post-config"],
        ["write_uwsgi_config", str(sandbox.uwsgi_conf)],
        ["create_service_user", "fpgapool", "admin"],
        ["get_or_create_service", "fpgapool", "fpgapool"],
        ["get_or_create_endpoint", "fpgapool", "RegionOne"],
        ["recreate_database", "fpgapool"],
        ["fpgapool-manage", "--config-file", str(sandbox.conf), "db", "sync"],
        ["async_wait", "configure_neutron_nova"],
        ["iniset", str(sandbox.nova_conf), "filter_scheduler"],
        ["phase", "stack", "extra"],
        ["run_process", "fpgapool-cond"],
        ["run_process", "fpgapool-api"],
        ["test_with_retry"],
        ["iniset", str(sandbox.agent_conf), "DEFAULT", "host_uuid"],
        ["run_process", "fpgapool-agent"],
        ["openstack", "--os-region-name", "RegionOne", "flavor", "create"],
    ]
    places = [
        next(i for i, call in enumerate(calls) if call[: len(one)] == one)
        for one in wanted
    ]
    assert places == sorted(places)


def test_all_in_one_installs_what_it_needs(plain):
    _, calls = plain
    ((_, _, extras),) = harness.named(calls, "setup_develop")
    assert set(extras.split(",")) == {
        *("api", "cli", "emulator", "mysql", "server")
    }
    links = [call[-2].split("/")[-1] for call in calls if "ln" in call]
    assert "fpgapool-manage" in links


def test_extras_are_those_of_the_package(plain):
    _, calls = plain
    ((_, _, extras),) = harness.named(calls, "setup_develop")
    project = tomllib.loads((harness.ROOT / "pyproject.toml").read_text())
    assert set(extras.split(",")) <= set(
        project["project"]["optional-dependencies"]
    )


def test_linked_commands_are_those_of_the_package():
    project = tomllib.loads((harness.ROOT / "pyproject.toml").read_text())
    text = (harness.PLUGIN / "lib" / "fpgapool").read_text()
    (line,) = [x for x in text.splitlines() if "FPGAPOOL_COMMANDS=" in x]
    names = line.partition('"')[2].strip('"').split()
    assert set(names) <= set(project["project"]["scripts"])


def test_server_configuration(plain, known):
    sandbox, _ = plain
    conf = _parse(sandbox.conf, known)
    assert conf.database.connection == (
        "mysql+pymysql://root:pw@127.0.0.1/fpgapool"
        "?charset=utf8mb4&plugin=dbcounter"
    )
    assert conf.transport_url == "rabbit://u:pw@192.0.2.10:5672/"
    assert conf.state_path == str(sandbox.state_path)
    assert conf.bitstreams.store == "file"
    assert conf.keystone_authtoken.auth_type == "password"
    assert conf.nova.auth_type == "password"
    assert conf.placement.auth_type == "password"
    assert conf.placement.region_name == "RegionOne"
    assert conf.vendordata.token_keys == ["ab" * 32]
    assert conf.vendordata.api_url == "http://192.0.2.10/fpgapool"
    assert "glance" not in harness.read(sandbox.conf)


def test_agent_configuration(sandbox, known):
    sandbox.stack(
        harness.ALL_IN_ONE, FPGAPOOL_BOARDS="3", FPGAPOOL_SLOTS_PER_BOARD="2"
    )
    conf = _parse(sandbox.agent_conf, known)
    assert conf.host_uuid == "f0000000-0000-4000-8000-000000000001"
    assert conf.agent.driver == "emulator"
    assert conf.agent.data_address == "192.0.2.11"
    assert conf.agent.data_ports == "61000-61255"
    assert conf.agent.front_door_sockets == {
        PROJECT: "/run/fpgapool/demo.sock"
    }
    conf.register_opts(driver.EmulatorDriver.options(), group="emulator")
    found = boards.read_boards(conf.emulator.boards_file)
    assert [(one.name, one.slots) for one in found.boards] == [
        ("board0", 2),
        ("board1", 2),
        ("board2", 2),
    ]
    assert found.rate_scale == 0.05
    sections = harness.read(sandbox.agent_conf)
    assert "database" not in sections
    assert "keystone_authtoken" not in sections


@pytest.mark.security
def test_others_do_not_read_configuration(sandbox):
    sandbox.stack(harness.ALL_IN_ONE, FPGAPOOL_DATA_SHARE_PERCENT="50")
    files = list((sandbox.path / "etc").iterdir())
    assert len(files) == 6
    for path in (*files, sandbox.path / "sudoers"):
        assert path.stat().st_mode & 0o137 == 0, path


@pytest.mark.security
def test_messages_are_signed(plain, known):
    sandbox, calls = plain
    server = _parse(sandbox.conf, known)
    pool = signing.pool_keys(server)
    assert pool is not None
    agent = _parse(sandbox.agent_conf, known)
    assert signing.host_keys(agent).secrets == (
        bytes.fromhex(harness.HOST_KEY),
    )
    (asked,) = [call for call in calls if call[-2:] == ["host", "key"]]
    assert asked[1:3] == ["--config-file", str(sandbox.agent_conf)]
    # What it was asked with is gone.
    assert not list((sandbox.path / "etc").glob("host.key?*"))
    # The agent has no key but its own, and no server's user of the broker.
    assert agent.messages.pool_key_file is None
    assert agent.transport_url == (
        f"rabbit://fpgapool-node:{'ab' * 16}@192.0.2.10:5672/"
    )


@pytest.mark.security
def test_what_the_plugin_asks_for_keys_and_permissions(
    plain, tmp_path, capsys
):
    sandbox, _ = plain
    pool = tmp_path / "pool.conf"
    path = sandbox.path / "etc" / "pool.key"
    pool.write_text(f"[messages]\npool_key_file = {path}\n")
    arguments = ("--config-file", str(pool))
    host = "f0000000-0000-4000-8000-000000000001"
    assert manage.main([*arguments, "host", "key", host]) == 0
    (key,) = capsys.readouterr().out.split()
    own = ("--config-file", str(sandbox.agent_conf))
    assert manage.main([*own, *arguments, "host", "key"]) == 0
    assert capsys.readouterr().out.split() == [key]
    assert manage.main([*own, "host", "permissions", "--user", "u"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == permissions.commands(host, "u", "/")


@pytest.mark.security
def test_the_broker_gets_a_user_for_the_agent(plain):
    _, calls = plain
    rabbit = [call[2:] for call in calls if call[1:2] == ["rabbitmqctl"]]
    assert rabbit == [
        ["delete_user", "fpgapool-node"],
        ["add_user", "fpgapool-node", "ab" * 16],
    ]
    assert ["sudo", "sh", "-e", "-c", harness.PERMISSIONS] in calls


@pytest.mark.security
def test_all_nodes_have_the_same_pool_key(plain, sandbox):
    calls = sandbox.stack(
        harness.COMPUTE, disabled="fpgapool-api,fpgapool-cond"
    )
    # The broker is another node's.
    assert not [call for call in calls if "rabbitmqctl" in call]
    assert "messages" in harness.read(sandbox.agent_conf)
    assert not (sandbox.path / "etc" / "pool.key").exists()
    other, _ = plain
    made = hashlib.sha256(b"fpgapool pw\n").hexdigest()
    assert (other.path / "etc" / "pool.key").read_text() == f"{made}\n"


@pytest.mark.parametrize(
    "name",
    [
        *("devstack/local.conf.sample", "devstack/local.conf.compute.sample"),
        "doc/source/install/devstack.rst",
    ],
)
def test_samples_name_the_branch(name):
    """Without one DevStack takes "master", which this repository lacks."""
    text = (harness.ROOT / name).read_text()
    lines = re.findall(r"(?m)^ *(enable_plugin .*)$", text)
    assert [shlex.split(line)[3:] for line in lines] == [["main"]]


def test_data_ports_are_no_ports_of_outgoing_connections(plain, known):
    sandbox, _ = plain
    first, last = _parse(sandbox.agent_conf, known).agent.data_ports.split("-")
    assert 60999 < int(first) < int(last) < 65536


def test_uwsgi_configuration(plain):
    sandbox, _ = plain
    assert harness.read(sandbox.uwsgi_conf)["uwsgi"] == {
        "module": "fpgapool.wsgi.api:application",
        "socket": str(sandbox.path / "uwsgi/fpgapool-api.socket"),
        "chmod-socket": "660",
        "threads": "24",
        "env": f"OS_FPGAPOOL_CONFIG_FILES={sandbox.conf}",
    }
    assert app.CONFIG_FILES == "OS_FPGAPOOL_CONFIG_FILES"


@pytest.mark.security
def test_only_the_web_server_reaches_the_socket(plain):
    sandbox, calls = plain
    (start,) = harness.named(calls, "run_process", "fpgapool-api")
    assert start[3:] == ["www-data"]
    options = harness.read(sandbox.uwsgi_conf)["uwsgi"]
    assert options["chmod-socket"] == "660"


def test_the_unit_of_the_agent_lets_workers_live(plain):
    sandbox, calls = plain
    name = "devstack@fpgapool-agent.service.d/fpgapool.conf"
    unit = harness.read(sandbox.path / "systemd" / name)["Service"]
    assert unit == {
        "killmode": "process",
        "runtimedirectory": "fpgapool",
        "runtimedirectorypreserve": "yes",
    }
    reload = calls.index(["systemctl", "daemon-reload"])
    (start,) = harness.named(calls, "run_process", "fpgapool-agent")
    assert reload < calls.index(start)


def test_nova_gets_filter_and_weigher(plain):
    sandbox, _ = plain
    text = sandbox.nova_conf.read_text()
    for line in (
        "enabled_filters = ComputeFilter,SameHostFilter,FpgaAffinityFilter",
        "available_filters = nova.scheduler.filters.all_filters",
        "available_filters = fpgapool_nova_filters.filters.FpgaAffinityFilter",
        "weight_classes = nova.scheduler.weights.all_weighers,"
        "fpgapool_nova_filters.weights.FpgaAffinityWeigher",
        "vendordata_providers = StaticJSON,DynamicJSON",
        "vendordata_dynamic_targets ="
        " fpgapool@http://192.0.2.10/fpgapool/v1/vendordata",
        "[fpgapool]",
        "[vendordata_dynamic_auth]",
    ):
        assert text.count(f"\n{line}\n") == 1, line


def test_what_others_have_set_in_nova_stays(sandbox):
    sandbox.nova_conf.write_text(
        "[filter_scheduler]\n"
        "enabled_filters = A,B\n"
        "available_filters = nova.scheduler.filters.all_filters\n"
        "available_filters = others.Filter\n"
        "weight_classes = others.Weigher\n"
        "[api]\n"
        "vendordata_providers = StaticJSON,DynamicJSON\n"
        "vendordata_dynamic_targets = others@http://192.0.2.9/\n"
    )
    sandbox.stack(harness.ALL_IN_ONE)
    text = sandbox.nova_conf.read_text()
    assert "available_filters = others.Filter\n" in text
    assert "enabled_filters = A,B,FpgaAffinityFilter\n" in text
    assert "weight_classes = others.Weigher,fpgapool_nova_filters." in text
    assert "vendordata_providers = StaticJSON,DynamicJSON\n" in text
    assert "targets = others@http://192.0.2.9/,fpgapool@http" in text


def test_classes_are_where_nova_looks_for_them():
    for module, name in (
        ("filters", "FpgaAffinityFilter"),
        ("weights", "FpgaAffinityWeigher"),
    ):
        path = harness.ROOT / "fpgapool_nova_filters" / f"{module}.py"
        assert f"\nclass {name}(" in path.read_text()


@pytest.mark.security
def test_nova_alone_may_ask_for_vendordata(plain):
    _, calls = plain
    role = rights.VENDORDATA_ROLE
    assert harness.named(calls, "get_or_create_role") == [
        ["get_or_create_role", role]
    ]
    ((_, *given),) = harness.named(calls, "get_or_add_user_project_role")
    assert given == [role, "nova", "service", "Default", "Default"]


def test_vendordata_can_be_left_out(sandbox):
    calls = sandbox.stack(harness.ALL_IN_ONE, FPGAPOOL_VENDORDATA="False")
    assert harness.named(calls, "get_or_create_role") == []
    assert "vendordata" not in sandbox.nova_conf.read_text()
    assert "[vendordata]" not in sandbox.conf.read_text()


def test_the_flavor_asks_for_accelerators(sandbox):
    calls = sandbox.stack(harness.ALL_IN_ONE, FPGAPOOL_ACCELERATORS="aes,sha")
    (change,) = [x for x in calls if x[0] == "openstack" and "set" in x]
    assert change[-1] == "fpga.small"
    assert "fpgapool:accelerators=aes,sha" in change
    assert "fpgapool:affinity=preferred" in change


def test_a_flavor_that_is_there_is_kept(sandbox):
    calls = sandbox.stack(harness.ALL_IN_ONE, FLAVOR_IS_THERE="0")
    assert not [x for x in calls if x[0] == "openstack" and "create" in x]


def test_endpoints(sandbox):
    calls = sandbox.stack(harness.ALL_IN_ONE, SERVICE_PROTOCOL="https")
    ((*_, public, admin, internal),) = harness.named(
        calls, "get_or_create_endpoint"
    )
    assert public == internal == "https://192.0.2.10/fpgapool"
    assert admin == ""


def test_a_compute_node_has_the_agent_only(sandbox, known):
    calls = sandbox.stack(
        harness.COMPUTE, disabled="fpgapool-api,fpgapool-cond"
    )
    started = [x[1] for x in harness.named(calls, "run_process")]
    # run_process itself leaves out what is not enabled.
    assert set(started) == {"fpgapool-cond", "fpgapool-agent"}
    for name in (
        "create_service_user",
        "get_or_create_endpoint",
        "recreate_database",
        "write_uwsgi_config",
    ):
        assert harness.named(calls, name) == []
    (asked,) = harness.named(calls, "fpgapool-manage")
    assert asked[-2:] == ["host", "key"]
    ((_, _, extras),) = harness.named(calls, "setup_develop")
    assert set(extras.split(",")) == {"cli", "emulator", "server"}
    assert not sandbox.conf.exists()
    _parse(sandbox.agent_conf, known)
    # Config drives are written there, and no scheduler runs.
    text = sandbox.nova_conf.read_text()
    assert "vendordata_dynamic_targets" in text
    assert "FpgaAffinity" not in text


def test_a_scheduler_alone_finds_the_api_of_the_controller(sandbox):
    calls = sandbox.stack("n-sch,n-cond", disabled=",".join(OURS))
    assert "FpgaAffinityFilter" in sandbox.nova_conf.read_text()
    # It could not start without the classes.
    assert len(harness.named(calls, "setup_develop")) == 1
    assert harness.named(calls, "run_process", "fpgapool-agent") == []


def test_a_scheduler_without_our_classes_needs_no_package(sandbox):
    calls = sandbox.stack(
        "n-sch,n-cond", disabled=",".join(OURS), FPGAPOOL_NOVA_FILTERS="False"
    )
    assert "FpgaAffinityFilter" not in sandbox.nova_conf.read_text()
    assert harness.named(calls, "setup_develop") == []


@pytest.mark.parametrize("service", OURS)
def test_each_service_can_be_disabled(sandbox, known, service):
    calls = sandbox.stack(harness.ALL_IN_ONE, disabled=service)
    started = {x[1] for x in harness.named(calls, "run_process")}
    assert set(OURS) - {service, "fpgapool-cond"} <= started
    assert sandbox.agent_conf.exists() == (service != "fpgapool-agent")
    assert sandbox.conf.exists()
    _parse(sandbox.conf, known)
    has_api = service != "fpgapool-api"
    assert bool(harness.named(calls, "create_service_user")) == has_api
    assert sandbox.uwsgi_conf.exists() == has_api
    text = sandbox.nova_conf.read_text()
    assert ("FpgaAffinityFilter" in text) == has_api
    assert ("vendordata" in text) == has_api


def test_without_any_of_ours_nothing_is_done(sandbox):
    before = sandbox.files()
    calls = sandbox.stack(harness.ALL_IN_ONE, disabled=",".join(OURS))
    assert sandbox.files() == before
    assert {x[0] for x in calls} <= {"phase", "define_plugin"}


def test_without_keystone(sandbox):
    calls = sandbox.stack("mysql,rabbit")
    assert harness.named(calls, "create_service_user") == []
    assert harness.named(calls, "recreate_database") != []


def test_without_nova(sandbox):
    calls = sandbox.stack("key,mysql,rabbit,g-api")
    assert harness.named(calls, "async_wait") == []
    assert sandbox.nova_conf.read_text() == harness.NOVA_CONF
    assert "host_uuid" not in sandbox.agent_conf.read_text()
    assert "[nova]" not in sandbox.conf.read_text()
    assert "[placement]" not in sandbox.conf.read_text()


def test_without_a_scheduler(sandbox):
    services = harness.ALL_IN_ONE.replace("n-sch", "n-novnc")
    sandbox.stack(services)
    text = sandbox.nova_conf.read_text()
    assert "FpgaAffinity" not in text
    assert "vendordata_dynamic_targets" in text


@pytest.mark.parametrize(
    "network", ["", "q-svc", "neutron-api,ovn-controller,ovn-northd"]
)
def test_networking_makes_no_difference(sandbox, network):
    services = harness.ALL_IN_ONE.replace("q-svc,q-agt", network)
    calls = sandbox.stack(services)
    assert ["async_wait", "configure_neutron_nova"] in calls
    assert "FpgaAffinityFilter" in sandbox.nova_conf.read_text()


def test_bitstreams_in_glance(sandbox, known):
    sandbox.stack(harness.ALL_IN_ONE, FPGAPOOL_BITSTREAM_STORE="glance")
    conf = _parse(sandbox.conf, known)
    assert conf.bitstreams.store == "glance"
    assert conf.glance.auth_type == "password"
    assert conf.glance.region_name == "RegionOne"


def test_clients_of_other_services_take_their_groups(sandbox):
    sandbox.stack(harness.ALL_IN_ONE, FPGAPOOL_BITSTREAM_STORE="glance")
    conf = cfg.ConfigOpts()
    nova_conf.OPTIONS.register(conf)
    placement_conf.OPTIONS.register(conf)
    conf(["--config-file", str(sandbox.conf)], default_config_files=[])
    assert nova.Nova.from_conf(conf) is not None
    assert placement.Placement.from_conf(conf) is not None
    glance.Glance(conf)
    for group in ("glance", "nova", "placement"):
        assert conf[group].valid_interfaces == ["public"]


def test_no_boards(sandbox, known):
    sandbox.stack(harness.ALL_IN_ONE, FPGAPOOL_BOARDS="0")
    conf = _parse(sandbox.agent_conf, known)
    assert conf.agent.driver == "noop"
    assert not sandbox.boards_file.exists()


def test_no_front_door(sandbox):
    calls = sandbox.stack(harness.ALL_IN_ONE, FPGAPOOL_FRONT_DOOR_PROJECT="")
    assert "front_door_sockets" not in sandbox.agent_conf.read_text()
    assert not [x for x in calls if "project" in x]


@pytest.mark.security
def test_a_cap_on_the_data_plane(sandbox, known):
    sandbox.stack(harness.ALL_IN_ONE, FPGAPOOL_DATA_SHARE_PERCENT="50")
    conf = _parse(sandbox.agent_conf, known)
    assert conf.agent.data_share_percent == 50
    assert conf.agent.data_share_remove_at_stop
    (line,) = (sandbox.path / "sudoers").read_text().splitlines()
    assert line.startswith("stack ALL = (root) NOPASSWD: ")
    sudo, _, helper = conf[link.CONFIG_GROUP].helper_command.partition(" ")
    assert sudo == "sudo"
    sudoers.check_is_for_the_helper_only(line, helper)


def test_no_cap_needs_no_rights(plain):
    sandbox, _ = plain
    assert not (sandbox.path / "sudoers").exists()


def test_tls(sandbox, known):
    sandbox.stack(
        f"{harness.ALL_IN_ONE},tls-proxy",
        # As DevStack leaves it.
        SERVICE_PROTOCOL="http",
        FPGAPOOL_BITSTREAM_STORE="glance",
    )
    conf = _parse(sandbox.conf, known)
    bundle = str(sandbox.path / "opt/data/ca-bundle.pem")
    for group in (conf.glance, conf.nova, conf.placement):
        assert group.cafile == bundle
    assert conf.vendordata.ca_file == bundle
    assert conf.oslo_middleware.enable_proxy_headers_parsing
    text = sandbox.nova_conf.read_text()
    assert text.count(f"cafile = {bundle}\n") == 2
    assert f"vendordata_dynamic_ssl_certfile = {bundle}\n" in text
    assert "fpgapool@https://192.0.2.10/fpgapool/v1/vendordata" in text


@pytest.mark.parametrize(
    ("driver", "where"),
    [
        ("libvirt", "opt/data/nova"),
        ("libvirt", "nova"),
        ("fake", "opt/data/nova/node1"),
    ],
)
def test_the_host_is_the_compute_provider(sandbox, known, driver, where):
    (sandbox.path / "opt/data/nova/compute_id").unlink()
    sandbox.write_compute_id("ABCDEF00-0000-4000-8000-000000000002", where)
    sandbox.stack(harness.ALL_IN_ONE, VIRT_DRIVER=driver)
    conf = _parse(sandbox.agent_conf, known)
    assert conf.host_uuid == "ABCDEF00-0000-4000-8000-000000000002"


def test_the_host_has_the_name_that_nova_knows(sandbox, known):
    """Of a fake driver, or as the operator has called it."""
    sandbox.write_compute_id(
        "ABCDEF00-0000-4000-8000-000000000002", "opt/data/nova/node1"
    )
    sandbox.stack(harness.ALL_IN_ONE, VIRT_DRIVER="fake")
    assert _parse(sandbox.agent_conf, known).host_name == "node1"
    sandbox.reset_nova_conf()
    with sandbox.nova_conf.open("a") as file:
        file.write("\n[DEFAULT]\nhost = compute-a\n")
    sandbox.stack(harness.ALL_IN_ONE)
    assert _parse(sandbox.agent_conf, known).host_name == "compute-a"
    sandbox.reset_nova_conf()
    sandbox.stack(harness.ALL_IN_ONE)
    # The machine's, for Nova as for us.
    assert "host_name" not in sandbox.agent_conf.read_text()


def test_a_compute_service_of_ironic_has_no_uuid(sandbox):
    calls = sandbox.stack(harness.ALL_IN_ONE, VIRT_DRIVER="ironic")
    assert "host_uuid" not in sandbox.agent_conf.read_text()
    waits = harness.named(calls, "test_with_retry")
    assert not [x for x in waits if "compute_id" in x[1]]
    assert harness.named(calls, "run_process", "fpgapool-agent") != []


def test_restacking_leads_to_the_same(sandbox):
    first_calls = sandbox.stack(harness.ALL_IN_ONE)
    first = sandbox.files()
    sandbox.reset_nova_conf()
    removals = (["sudo", "rm"], ["remove_uwsgi_config"])
    first_calls, second_calls = (
        [x for x in calls if not any(x[: len(y)] == y for y in removals)]
        for calls in (first_calls, sandbox.stack(harness.ALL_IN_ONE))
    )
    assert second_calls == first_calls
    assert sandbox.files() == first
    # Also where Nova's file is kept.
    sandbox.stack(harness.ALL_IN_ONE)
    assert sandbox.files() == first
    site = (sandbox.path / "apache/fpgapool-api.conf").read_text()
    assert site.count("ProxyPass") == 1


def test_unstacking_ends_everything(sandbox):
    sandbox.stack(harness.ALL_IN_ONE)
    (sandbox.state_path / "workers").mkdir()
    calls = sandbox.run(harness.ALL_IN_ONE, "unstack")
    stopped = [x[1] for x in harness.named(calls, "stop_process")]
    assert stopped == list(OURS)
    unit = "devstack@fpgapool-agent.service"
    kill = calls.index(["systemctl", "kill", "--signal=SIGKILL", unit])
    assert kill > calls.index(["stop_process", "fpgapool-agent"])
    (pkill,) = harness.named(calls, "sudo", "pkill")
    assert pkill[2:-1] == ["-KILL", "-u", "stack", "-f", "--"]
    assert not sandbox.state_path.exists()
    assert not sandbox.uwsgi_conf.exists() or harness.named(
        calls, "remove_uwsgi_config", str(sandbox.uwsgi_conf)
    )
    assert not (sandbox.path / "apache/fpgapool-api.conf").exists()
    (removal,) = [x for x in calls if "/run/fpgapool" in x]
    assert removal[:3] == ["sudo", "rm", "-rf"]


def test_workers_are_found_by_how_they_are_started():
    text = (harness.PLUGIN / "lib" / "fpgapool").read_text()
    pattern = text.partition("-f -- '")[2].partition("'")[0]
    found = subprocess.run(
        ["grep", "-c", "-E", "-e", pattern],
        input=f"/usr/bin/python3 -m {processes.WORKER_MODULE} -\n",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert found.stdout == "1\n"


def test_unstacking_ends_what_was_disabled_since(sandbox):
    sandbox.stack(harness.ALL_IN_ONE)
    calls = sandbox.run(
        harness.ALL_IN_ONE, "unstack", disabled="fpgapool-cond"
    )
    (disable,) = harness.named(calls, "systemctl", "disable")
    assert disable[2:] == ["--now", "devstack@fpgapool-cond.service"]


def test_unstacking_removes_the_cap(sandbox):
    variables = {"FPGAPOOL_DATA_SHARE_PERCENT": "50"}
    sandbox.stack(harness.ALL_IN_ONE, **variables)
    calls = sandbox.run(harness.ALL_IN_ONE, "unstack", **variables)
    assert ["sudo", str(sandbox.path / "bin/python3"), "-"] in calls


#: What runs on a node: services, those that local.conf disables, variables.
NODES = {
    "one": (harness.ALL_IN_ONE, "", {}),
    "one, capped": (
        harness.ALL_IN_ONE,
        "",
        {"FPGAPOOL_DATA_SHARE_PERCENT": "50"},
    ),
    "one, TLS": (f"{harness.ALL_IN_ONE},tls-proxy", "", {}),
    "controller": (harness.ALL_IN_ONE, "fpgapool-agent", {}),
    "controller, TLS": (
        f"{harness.ALL_IN_ONE},tls-proxy",
        "fpgapool-agent",
        {},
    ),
    "compute": (harness.COMPUTE, "fpgapool-api,fpgapool-cond", {}),
    "compute, TLS, no boards": (
        f"{harness.COMPUTE},tls-proxy",
        "fpgapool-api,fpgapool-cond",
        {"FPGAPOOL_BOARDS": "0"},
    ),
}


def _stack_and_unstack(sandbox, node):
    """Stack a node, let its services work, and unstack it."""
    services, disabled, variables = NODES[node]
    sandbox.stack(services, disabled=disabled, **variables)
    sandbox.leave_what_services_do()
    return sandbox.run(services, "unstack", disabled=disabled, **variables)


@pytest.mark.parametrize("node", NODES)
def test_unstacking_and_cleaning_leave_nothing(sandbox, node):
    before = sandbox.files()
    _stack_and_unstack(sandbox, node)
    # Configuration and units, as DevStack leaves its own.
    there = ("etc/", "systemd/devstack@fpgapool-agent.service.d/")
    sandbox.reset_nova_conf()
    left = sandbox.files().keys() - before.keys()
    assert [name for name in left if not name.startswith(there)] == []
    assert not sandbox.state_path.exists()
    services, disabled, variables = NODES[node]
    sandbox.run(services, "clean", disabled=disabled, **variables)
    assert sandbox.files() == before


@pytest.mark.parametrize(
    ("first", "second"),
    [("one, TLS", "one"), *(("one, capped", node) for node in NODES)],
)
def test_a_second_stack_finds_nothing(tmp_path, first, second):
    """Whatever local.conf said at first."""
    again, fresh = (
        harness.Sandbox(tmp_path / name) for name in ("again", "fresh")
    )
    _stack_and_unstack(again, first)
    again.reset_nova_conf()
    services, disabled, variables = NODES[second]
    for sandbox in (again, fresh):
        sandbox.stack(services, disabled=disabled, **variables)
    assert again.files() == fresh.files()


def test_a_cap_is_removed_that_local_conf_has_no_more(sandbox):
    services, disabled, variables = NODES["one, capped"]
    sandbox.stack(services, disabled=disabled, **variables)
    calls = sandbox.run(services, "unstack")
    assert ["sudo", str(sandbox.path / "bin/python3"), "-"] in calls


def test_a_node_without_the_api_touches_no_web_server(sandbox):
    calls = _stack_and_unstack(sandbox, "compute")
    assert harness.named(calls, "remove_uwsgi_config") == []


def test_cleaning_what_was_never_stacked(sandbox):
    before = sandbox.files()
    sandbox.run(harness.ALL_IN_ONE, "unstack")
    sandbox.run(harness.ALL_IN_ONE, "clean")
    assert sandbox.files() == before
