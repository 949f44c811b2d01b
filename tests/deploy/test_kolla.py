# SPDX-License-Identifier: Apache-2.0

"""The role of kolla-ansible, up to where containers would start."""

from __future__ import annotations

import json
import pathlib
import re

import pytest
import yaml

from fpgapool.common.messaging import signing
from tests.deploy import charts
from tests.deploy import conftest
from tests.services import openstack

ROLE = charts.ROOT / "deploy" / "kolla" / "ansible" / "roles" / "fpgapool"
SERVICES = ("fpgapool-api", "fpgapool-conductor", "fpgapool-agent")
NOVA_SERVICES = ("scheduler", "metadata", "compute")
BOARDS = [{"name": "board0", "shape": "medium", "slots": 2}]


@pytest.fixture(scope="module")
def configured(kolla: conftest.Kolla) -> conftest.Kolla:
    """Give the site after "kolla-ansible genconfig"."""
    policy = kolla.etc / "config" / "fpgapool" / "policy.yaml"
    policy.parent.mkdir()
    policy.write_text('"fpgapool:usage:list": "role:admin"\n')
    configure(kolla)
    return kolla


def configure(kolla: conftest.Kolla) -> str:
    return kolla.playbook(
        "fpgapool.yml",
        kolla_action="config",
        fpgapool_boards=BOARDS,
        fpgapool_front_doors={"demo": "/run/fpgapool/demo.sock"},
    ).stdout


@pytest.mark.parametrize(
    "action",
    "check check-containers config deploy deploy-containers loadbalancer"
    " precheck pull reconfigure stop upgrade".split(),
)
def test_actions_are_complete(kolla: conftest.Kolla, action: str) -> None:
    """All roles and files that an action imports are there."""
    playbook = kolla.ansible / f"only-{action}.yml"
    role = {"name": "fpgapool", "tasks_from": action}
    tasks = [{"ansible.builtin.import_role": role}]
    playbook.write_text(
        json.dumps([{"hosts": "fpgapool-api", "tasks": tasks}])
    )
    listed = kolla.playbook(playbook.name, "--list-tasks").stdout
    assert len(re.findall(r"TAGS: \[", listed)) > 1


def test_lint(kolla: conftest.Kolla) -> None:
    conftest.run(
        *("ansible-lint", "--offline", "--nocolor", "-q", "fpgapool.yml"),
        *("roles/fpgapool", "--exclude"),
        # Whatever fpgapool.yml or the role includes is kolla's.
        *(
            str(path.relative_to(kolla.ansible))
            for path in kolla.ansible.glob("roles/*")
            if path.name != "fpgapool"
        ),
        directory=kolla.ansible,
    )


@pytest.mark.parametrize("service", SERVICES)
def test_options_are_known(configured: conftest.Kolla, service: str) -> None:
    path = configured.node / service / "fpgapool.conf"
    conftest.require_known_options(path)
    conftest.read_options(path)


def test_agents_are_those_of_nova(configured: conftest.Kolla) -> None:
    conf = conftest.read_options(
        configured.node / "fpgapool-agent" / "fpgapool.conf"
    )
    assert conf.host_uuid == conftest.HOST_UUID
    assert conf.agent.driver == "emulator"
    assert conf.agent.front_door_sockets == {"demo": "/run/fpgapool/demo.sock"}


def test_agents_have_no_secret_of_others(configured: conftest.Kolla) -> None:
    directory = configured.node / "fpgapool-agent"
    text = "".join(path.read_text() for path in directory.iterdir())
    key = (configured.node / "fpgapool-api" / "message.key").read_text()
    passwords = configured.passwords()
    assert key not in text
    for name in ("database_password", "keystone_password", "token_secret"):
        assert passwords[f"fpgapool_{name}"] not in text


def test_keys_of_hosts_are_those_of_the_pool(
    configured: conftest.Kolla,
) -> None:
    keys = signing.read(
        str(configured.node / "fpgapool-conductor" / "message.key"),
        signing.CONTROL,
        "",
    )
    assert keys is not None
    path = configured.node / "fpgapool-agent" / "message.key"
    assert path.read_text() == keys.host_key(conftest.HOST_UUID)


@pytest.mark.parametrize("service", SERVICES)
def test_containers_find_all_files(
    configured: conftest.Kolla, service: str
) -> None:
    directory = configured.node / service
    document = json.loads((directory / "config.json").read_text())
    named = {
        pathlib.Path(file["source"]).name for file in document["config_files"]
    }
    there = {path.name for path in directory.iterdir()} - {"config.json"}
    assert named == there
    assert ("policy.yaml" in named) is (service == "fpgapool-api")


def test_nothing_changes_the_second_time(configured: conftest.Kolla) -> None:
    recap = configure(configured).rpartition("PLAY RECAP")[2]
    assert "changed=0" in recap, recap


@pytest.fixture(scope="module")
def merged(kolla: conftest.Kolla) -> pathlib.Path:
    """Give where kolla-ansible has merged the settings of Nova."""
    playbook = kolla.ansible / "merge.yml"
    merges = [
        {
            "sources": [str(kolla.etc / "config" / "nova" / name)],
            "dest": str(kolla.directory / name),
            "mode": "0600",
        }
        for name in map("nova-{}.conf".format, NOVA_SERVICES)
    ]
    tasks = [{"merge_configs": merge} for merge in merges]
    playbook.write_text(json.dumps([{"hosts": "localhost", "tasks": tasks}]))
    kolla.playbook(playbook.name)
    return kolla.directory


@pytest.mark.parametrize("service", NOVA_SERVICES)
def test_nova_knows_its_options(merged: pathlib.Path, service: str) -> None:
    path = merged / f"nova-{service}.conf"
    conftest.run(
        openstack.program("oslo-config-validator"),
        *("--namespace", "nova.conf", "--namespace", "fpgapool_nova_filters"),
        *("--input-file", path),
        # They have the options of keystoneauth's plug-ins.
        *("--exclude-group", "vendordata_dynamic_auth"),
        *("--exclude-group", "fpgapool"),
    )
    text = path.read_text()
    assert "{{" not in text
    if service == "scheduler":
        assert text.count("available_filters = ") == 2


def test_variables_are_documented() -> None:
    readme = (charts.ROOT / "deploy" / "kolla" / "README.rst").read_text()
    variables = set()
    for path in (
        ROLE / "defaults" / "main.yml",
        ROLE.parents[1] / "group_vars" / "all" / "fpgapool.yml",
        ROLE.parents[2] / "passwords.yml",
    ):
        variables |= yaml.safe_load(path.read_text()).keys()
    documented = re.findall(r"``((?:enable_)?fpgapool_?[a-z_]*)``", readme)
    assert variables == set(documented) - {"fpgapool"}
