# SPDX-License-Identifier: Apache-2.0

"""Tools of those who deploy, and real services to compare with."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import yaml
from oslo_config import cfg

from fpgapool.common import config
from tests.deploy import charts
from tests.harness import waiting
from tests.integration.conftest import accounts
from tests.integration.conftest import api
from tests.integration.conftest import cloud
from tests.integration.conftest import keystone
from tests.integration.conftest import known_clouds
from tests.integration.conftest import nova
from tests.integration.conftest import personas
from tests.integration.conftest import pytest_runtest_makereport
from tests.integration.conftest import stack

__all__ = [
    "accounts",
    "api",
    "cloud",
    "keystone",
    "known_clouds",
    "nova",
    "personas",
    "pytest_runtest_makereport",
    "stack",
]

BIN = pathlib.Path(sys.executable).parent
KOLLA = BIN.parent / "share" / "kolla-ansible"
#: What the file compute_id of nova-compute has.
HOST_UUID = "1e7d9c32-6a35-4b8e-9a0e-0d2f7d1b2c3a"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep all tests here out of the gate."""
    here = pathlib.Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.long)


def run(
    *command: object,
    directory: pathlib.Path = charts.ROOT,
    check: bool = True,
    **environment: object,
) -> subprocess.CompletedProcess[str]:
    """Run a program of the environment that runs the tests."""
    found = shutil.which(str(command[0]), path=f"{BIN}:{os.environ['PATH']}")
    result = subprocess.run(
        [found or str(command[0]), *map(str, command[1:])],
        cwd=directory,
        env={
            **os.environ,
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            **{name: str(value) for name, value in environment.items()},
        },
        capture_output=True,
        text=True,
        timeout=waiting.COMMAND_LIMIT_S,
        check=False,
    )
    if check:
        assert result.returncode == 0, result.stdout + result.stderr
    return result


def require_known_options(path: pathlib.Path, *arguments: object) -> None:
    """Let oslo.config look for options that fpgapool does not have."""
    run(
        *("oslo-config-validator", "--config-file"),
        charts.ROOT / "etc/fpgapool/fpgapool-config-generator.conf",
        *("--input-file", path, *arguments),
    )


def read_options(path: pathlib.Path) -> cfg.ConfigOpts:
    """Read a file as services do."""
    arguments = ["--config-file", str(path), "--log-file", os.devnull]
    return config.init("test", arguments, conf=cfg.ConfigOpts())


@dataclasses.dataclass(frozen=True)
class Kolla:
    """kolla-ansible with fpgapool's role, and a site of one host.

    :ivar ansible: where the playbooks are.
    :ivar node: where the host's containers find their configuration.
    """

    directory: pathlib.Path

    @property
    def ansible(self) -> pathlib.Path:
        return self.directory / "ansible"

    @property
    def etc(self) -> pathlib.Path:
        return self.directory / "etc"

    @property
    def node(self) -> pathlib.Path:
        return self.directory / "node"

    def playbook(
        self, playbook: str, *arguments: object, **variables: object
    ) -> subprocess.CompletedProcess[str]:
        """Run a playbook on this machine, which has no container engine."""
        site = {
            "ansible_become": False,
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "config_owner_group": os.getgid(),
            "config_owner_user": os.getuid(),
            "enable_fpgapool": True,
            "kolla_internal_vip_address": "127.0.0.1",
            "network_interface": "lo",
            "node_config": str(self.etc),
            "node_config_directory": str(self.node),
            "fpgapool_compute_id_file": str(self.directory / "compute_id"),
            **variables,
        }
        return run(
            *("ansible-playbook", "--inventory", self.directory / "inventory"),
            *("--extra-vars", f"@{self.etc / 'globals.yml'}"),
            *("--extra-vars", f"@{self.etc / 'passwords.yml'}"),
            *("--extra-vars", json.dumps(site)),
            *(playbook, *arguments),
            directory=self.ansible,
        )

    def passwords(self) -> dict[str, str]:
        """Return what kolla-genpwd has made."""
        text = (self.etc / "passwords.yml").read_text()
        found: dict[str, str] = yaml.safe_load(text)
        return found


@pytest.fixture(scope="session")
def kolla(tmp_path_factory: pytest.TempPathFactory) -> Kolla:
    """Give kolla-ansible, into which the role was copied as README says."""
    made = Kolla(tmp_path_factory.mktemp("kolla"))
    source = charts.ROOT / "deploy" / "kolla"
    shutil.copytree(KOLLA / "ansible", made.ansible)
    shutil.copytree(source / "ansible", made.ansible, dirs_exist_ok=True)
    shutil.copytree(KOLLA / "etc_examples" / "kolla", made.etc)
    shutil.copytree(source / "config", made.etc / "config")
    passwords = made.etc / "passwords.yml"
    passwords.write_text(
        passwords.read_text()
        + (source / "passwords.yml").read_text().replace("---\n", "")
    )
    passwords.chmod(0o600)
    run("kolla-genpwd", "--passwords", passwords)
    (made.directory / "inventory").write_text(
        (made.ansible / "inventory" / "all-in-one").read_text()
        + (source / "inventory").read_text()
    )
    (made.directory / "compute_id").write_text(f"{HOST_UUID}\n")
    # The load balancer's own role makes them.
    for name in ("haproxy/services.d", "proxysql/users", "proxysql/rules"):
        (made.node / name).mkdir(parents=True)
    return made


@pytest.fixture(scope="session")
def collection(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Give where the collection is installed, from its archive."""
    target = tmp_path_factory.mktemp("collections")
    galaxy = ("ansible-galaxy", "collection")
    run(
        *(*galaxy, "build", "--output-path", target),
        directory=charts.ROOT / "deploy" / "ansible",
    )
    (archive,) = target.glob("*.tar.gz")
    run(*galaxy, "install", "--no-deps", "--collections-path", target, archive)
    return target
