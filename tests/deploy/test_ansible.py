# SPDX-License-Identifier: Apache-2.0

"""Modules of the collection, with a pool, Keystone and Nova."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import openstack
import pytest
import yaml

from fpgapool.osc.sdk import fpgapool_service
from fpgapool.osc.sdk import proxy
from fpgapool.vocabulary import accounting
from fpgapool_nova_filters import specs
from tests.deploy import charts
from tests.deploy import conftest
from tests.integration import server
from tests.services import nova as nova_service
from tests.services import openstack as services

MODULES = ("flavor", "host", "quota")
HOST = "board"
DEVICE = "board0"


@dataclasses.dataclass(frozen=True)
class Modules:
    """Runs modules of the collection on this machine, as an administrator."""

    collections: pathlib.Path
    clouds: pathlib.Path

    def run(
        self, module: str, *arguments: str, **parameters: object
    ) -> dict[str, Any]:
        """Run a module; return its result, also if it failed."""
        result = conftest.run(
            *("ansible", "localhost", "--module-name"),
            *(f"fpgapool.cloud.{module}", "--args"),
            *(json.dumps({"cloud": "admin", **parameters}), *arguments),
            check=False,
            ANSIBLE_COLLECTIONS_PATH=self.collections,
            ANSIBLE_LOAD_CALLBACK_PLUGINS=1,
            ANSIBLE_STDOUT_CALLBACK="ansible.posix.json",
            OS_CLIENT_CONFIG_FILE=self.clouds,
        )
        assert result.stdout.startswith("{"), result.stdout + result.stderr
        (play,) = json.loads(result.stdout)["plays"]
        (task,) = play["tasks"]
        found: dict[str, Any] = task["hosts"]["localhost"]
        return found


@pytest.fixture(scope="module")
def modules(
    collection: pathlib.Path,
    known_clouds: Mapping[str, object],
    tmp_path_factory: pytest.TempPathFactory,
) -> Modules:
    """Give what runs modules, in a cloud with Keystone."""
    path = tmp_path_factory.mktemp("modules") / "clouds.yaml"
    # YAML is more than JSON.
    path.write_text(json.dumps({"clouds": known_clouds}))
    return Modules(collection, path)


@pytest.fixture
def cloud_admin(
    modules: Modules, api: server.Server
) -> Iterator[openstack.connection.Connection]:
    """Give an administrator's connection to the cloud of the modules."""
    config = openstack.config.OpenStackConfig([str(modules.clouds)])
    connection = openstack.connection.Connection(
        config=config.get_one("admin")
    )
    yield connection
    connection.close()


@pytest.fixture
def pool(cloud_admin: openstack.connection.Connection) -> proxy.Proxy:
    """Give the pool's API."""
    return fpgapool_service.proxy_of(cloud_admin)


def documentation(module: str, collection: pathlib.Path) -> dict[str, object]:
    shown = conftest.run(
        *("ansible-doc", "--json", f"fpgapool.cloud.{module}"),
        ANSIBLE_COLLECTIONS_PATH=collection,
    ).stdout
    found: dict[str, object] = json.loads(shown)[f"fpgapool.cloud.{module}"]
    return found


@pytest.mark.parametrize("module", MODULES)
def test_modules_are_documented(module: str, collection: pathlib.Path) -> None:
    found = documentation(module, collection)
    options = found["doc"]["options"]
    if module == "quota":
        assert (
            options.keys() - {"cloud", "region_name", "project", "state"}
            == accounting.QUOTAS.keys()
        )
    if module == "flavor":
        assert set(options["affinity"]["choices"]) == set(specs.AFFINITIES)
        assert set(options["sla"]["choices"]) == set(specs.SLAS)
    # Examples say what is possible.
    for task in yaml.safe_load(found["examples"]):
        assert task[f"fpgapool.cloud.{module}"].keys() <= options.keys()


def test_arguments_are_those_of_the_documentation(
    collection: pathlib.Path,
) -> None:
    conftest.run(
        *("ansible-lint", "--offline", "--nocolor", "-q"),
        # The changes are in the release notes.
        *("--skip-list", "galaxy[no-changelog]"),
        charts.ROOT / "deploy" / "ansible",
        ANSIBLE_COLLECTIONS_PATH=collection,
    )


def test_host(modules: Modules, pool: proxy.Proxy) -> None:
    wish = {"host": HOST, "state": "disabled", "reason": "new kernel"}
    (host,) = pool.hosts(name=HOST)
    planned = modules.run("host", "--check", "--diff", **wish)
    assert planned["changed"]
    assert planned["diff"]["before"]["state"] == "enabled"
    assert planned["diff"]["after"] == {
        "state": "disabled",
        "reason": "new kernel",
    }
    assert pool.get_host(host.id).admin_state == "enabled"

    assert modules.run("host", **wish)["changed"]
    found = pool.get_host(host.id)
    assert (found.admin_state, found.admin_reason) == (
        "disabled",
        "new kernel",
    )
    assert not modules.run("host", **wish)["changed"]
    # A drain would end here.
    assert not modules.run("host", host=HOST, state="draining")["changed"]

    assert modules.run("host", host=host.id, state="enabled")["changed"]
    found = pool.get_host(host.id)
    assert (found.admin_state, found.admin_reason) == ("enabled", "")
    assert modules.run(
        *("host",), host=HOST, state="draining", drain_deadline_s=60
    )["changed"]
    assert modules.run("host", host=HOST, state="enabled")["changed"]


def test_board(modules: Modules, pool: proxy.Proxy) -> None:
    wish = {"host": HOST, "device": DEVICE, "reservable_slots": 1}
    assert modules.run("host", **wish)["changed"]
    assert not modules.run("host", **wish)["changed"]
    (device,) = pool.devices()
    assert (device.admin_state, device.reservable_slots) == ("enabled", 1)
    back = modules.run("host", **{**wish, "reservable_slots": 0})
    assert back["changed"]
    assert back["reservable_slots"] == 0


def test_quota(
    modules: Modules,
    pool: proxy.Proxy,
    personas: services.Personas,
) -> None:
    project = personas.member.project
    wish = {"project": project.name, "sessions": 3, "queued": -1}
    planned = modules.run("quota", "--check", "--diff", **wish)
    assert planned["changed"]
    assert pool.get_quota(project.id).sessions["source"] == "default"
    assert modules.run("quota", **wish)["limits"] == {
        "sessions": 3,
        "queued": -1,
    }
    assert not modules.run("quota", **wish)["changed"]
    more = modules.run("quota", project=project.id, groups=1)
    assert more["limits"] == {"sessions": 3, "queued": -1, "groups": 1}
    gone = {"project": project.name, "state": "absent"}
    assert modules.run("quota", **gone)["changed"]
    assert not modules.run("quota", **gone)["changed"]
    assert pool.get_quota(project.id).sessions["source"] == "default"


@pytest.mark.parametrize(
    ("module", "parameters", "message"),
    [
        ("host", {"host": "nowhere", "state": "enabled"}, "nowhere"),
        ("host", {"host": HOST}, "state"),
        ("host", {"host": HOST, "reservable_slots": 1}, "device"),
        ("host", {"host": HOST, "device": "x", "state": "enabled"}, "'x'"),
        ("quota", {"project": "nobody", "sessions": 1}, "nobody"),
        ("quota", {"project": "admin", "sessions": -2}, "INVALID"),
        ("quota", {"project": "admin", "cloud": "reader"}, "not authorized"),
    ],
)
def test_mistakes_are_told(
    modules: Modules,
    api: server.Server,
    module: str,
    parameters: dict[str, object],
    message: str,
) -> None:
    result = modules.run(module, **parameters)
    assert result["failed"]
    assert message in result["msg"]
    assert "Traceback" not in result["msg"]


def test_flavor(
    modules: Modules,
    nova: nova_service.Nova,
    cloud_admin: openstack.connection.Connection,
) -> None:
    compute = cloud_admin.compute
    made = compute.create_flavor(name="deploy", ram=64, vcpus=1, disk=0)
    compute.create_flavor_extra_specs(made, {"hw_rng:allowed": "True"})

    def present() -> dict[str, str]:
        found: dict[str, str] = compute.fetch_flavor_extra_specs(
            made
        ).extra_specs
        return found

    wish = {"name": "deploy", "accelerators": ["aes", "sha"]}
    near = {**wish, "affinity": "required", "max_sessions": 2}
    assert modules.run("flavor", "--check", **near)["changed"]
    assert present() == {"hw_rng:allowed": "True"}
    assert modules.run("flavor", **near)["changed"]
    assert not modules.run("flavor", **near)["changed"]
    assert present() == {
        "hw_rng:allowed": "True",
        specs.ACCELERATORS: "aes,sha",
        specs.AFFINITY: "required",
        specs.MAX_SESSIONS: "2",
    }
    urgent = modules.run("flavor", **wish, sla="high")
    assert urgent["extra_specs"] == {
        specs.ACCELERATORS: "aes,sha",
        specs.SLA: "high",
    }
    # Nova's validator is fpgapool's.
    wrong = modules.run("flavor", name="deploy", accelerators=["a b"])
    assert wrong["failed"]
    assert specs.SLA in present()
    assert modules.run("flavor", name="deploy", state="absent")["changed"]
    assert present() == {"hw_rng:allowed": "True"}
    compute.delete_flavor(made)
